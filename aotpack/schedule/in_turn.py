"""Rows that programs take in turn: while a row is written, the next ones are read (C:B16, B18).

    A program a row:  read a | reduce a | write a | read b | ...
    In turn:          read a | reduce a, read b | write a | reduce b, read c | write b | ...

The first fills a multiprocessor's time with several programs. Of a long row there is no room for
several: it, or the part of it that a program has, fills the registers. They also hold what all rows
need, such as weights, which each row would read from L2 again.
"""

from aotpack.devices import GPUS
from aotpack.ir.access import Strides, accesses
from aotpack.ir.integers import Indirect
from aotpack.ir.nodes import Guarded, Program, Scan, values, walk
from aotpack.ir.schedule import Kernel, ReductionTile

IN_TURN = (90, 99)  # architectures on which it was measured
GPU = GPUS[90]
LONGEST_PART = 16384  # elements of a row that a program holds in registers
BYTES = 128 * 32  # of a part, of each tensor, in a warp
SHORTEST = 96 * 1024  # bytes of a row; several programs of one row each hide shorter ones
CLUSTERS = {2: 66, 4: 30, 8: 15}  # of so many programs, one a multiprocessor: what an H200 runs
MOST_TENSORS = 3  # read along a part, which registers hold at once
STAGES = 3  # a row at work and two on their way; one is enough where two programs meet
SPARE = 2048  # bytes of shared memory for reductions and states


def tile_in_turn(
    kernel: Kernel, program: Program, strides: Strides, group: int
) -> ReductionTile | None:
    """The tile of a kernel whose long rows are taken in turn; None if they are not.

    They are where rows have something in common. Parts of a row are multiples of ``group``
    elements, which a thread reads at once.
    """
    x, r = kernel.axes
    row = r.extent.constant
    if row is None or not _is_plain(kernel, strides):
        return None
    common: set[str] = set()
    streamed: set[str] = set()
    for access in accesses(kernel):
        leaves = access.offset(strides).leaves()
        if not access.is_store and r in leaves:
            (streamed if x in leaves else common).add(access.buffer)
    if not common or not streamed or len(common | streamed) > MOST_TENSORS:
        return None
    widths = [program.buffers[name].dtype.itemsize for name in streamed]
    together = next((n for n in CLUSTERS if row <= n * LONGEST_PART), None)
    if together is None or row % (together * group) or row * max(widths) < SHORTEST:
        return None
    part = 1 << (row // together - 1).bit_length()
    stages = min(STAGES, 1 + (GPU.shared - SPARE) // (part * sum(widths)))
    if stages < (2 if together == 2 else STAGES):
        return None
    return ReductionTile(
        1,
        part,
        persistent=True,
        num_warps=max(1, part * max(widths) // BYTES),
        num_stages=stages,
        cluster_size=together,
        resident=CLUSTERS[together],
    )


def _is_plain(kernel: Kernel, strides: Strides) -> bool:
    """True without scans, conditions and addresses that data decide."""
    operations = [member.operation for member in kernel.members]
    if any(isinstance(operation, Scan) for operation in operations):
        return False
    computed = walk(value for operation in operations for value in values(operation))
    if any(isinstance(value, Guarded) for value in computed):
        return False
    offsets = (access.offset(strides) for access in accesses(kernel))
    return not any(isinstance(leaf, Indirect) for offset in offsets for leaf in offset.leaves())
