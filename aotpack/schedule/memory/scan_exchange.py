"""Exchange memory: the programs of a look-back scan leave each other the states of their blocks.

    s[i, k] = sum up to k of x[i, k]        ->        s_state0, s_ready[i, blocks]; s_turn[2]

The kernel keeps the states as its ``exchange``, the others as its ``counters``.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, look_back_slots
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.names import free_name
from aotpack.ir.operations import Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.memory.partial_sums import with_partial_sums


def declare_exchanges(program: Program, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Declare the memory in which programs exchange states of scans, or parts of sums."""
    return tuple(with_partial_sums(_declared(kernel, program), program) for kernel in kernels)


def _declared(kernel: Kernel, program: Program) -> Kernel:
    tiles = (variant.tile for variant in kernel.variants)
    look_backs = [tile for tile in tiles if isinstance(tile, ReductionTile) and tile.look_back]
    if look_backs:
        return _with_exchange(kernel, look_backs[0], program)
    return kernel


def _with_exchange(kernel: Kernel, tile: ReductionTile, program: Program) -> Kernel:
    """A kernel with the states that its programs exchange, and counters of ready blocks."""
    shape = (kernel.axes[0].extent, look_back_slots(kernel, tile))
    scans = [m.operation for m in kernel.members if isinstance(m.operation, Scan)]
    known = program.buffers
    states = [
        Buffer(free_name(f"{scan.targets[0]}_state{number}", known), dtype, shape)
        for scan in scans
        for number, dtype in enumerate(MONOIDS[scan.kind].state_dtypes(scan.args[0].dtype))
    ]
    counters = [
        Buffer(free_name(f"{scans[0].targets[0]}_turn", known), DType.INT32, (Int.of(2),)),
        *(Buffer(free_name(f"{s.targets[0]}_ready", known), DType.INT32, shape) for s in scans),
    ]
    return replace(kernel, exchange=tuple(states), counters=tuple(counters))
