"""Split-K: the programs that share a tile store their parts; the last to end adds them.

    parts[tile, split] = sum of the split's steps;   acc = sum over split of parts[tile, split]

The parts are added in one order, so equal inputs give equal bits. If registers hold all of them,
they are requested at once.
"""

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import ceil_div
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.triton.contexts import SplitContext

MOST_AT_ONCE = 64  # elements of parts in a thread's registers


def step_range(template_op: Matmul, tile: MatmulTile, *, by_steps: bool) -> str:
    """The first step of a program and the one behind its last; else those elements of k."""
    end = template_op.k.extent // tile.k if by_steps else template_op.k.extent
    if tile.splits == 1:
        return f"0, {end}"
    unit = 1 if by_steps else tile.k
    steps = int(ceil_div(template_op.k.extent, tile.k))
    share = -(-steps // tile.splits) * unit
    last = f"(split + 1) * {share}"
    if share * tile.splits != int(end):
        last = f"tl.minimum({last}, {end})"
    return f"split * {share}, {last}"


def split_context(kernel: Kernel, tile: MatmulTile, builder: KernelBuilder) -> SplitContext:
    """The exchange memory of a kernel: a tile for each part, and a counter for each tile."""
    (parts,), (counters,) = kernel.exchange, kernel.counters
    pointer = builder.arguments.pointer
    in_thread = tile.splits * tile.m * tile.n // (WARP * tile.num_warps)
    walk = "tl.static_range" if in_thread <= MOST_AT_ONCE else "range"
    return SplitContext(tile.splits, walk, pointer(parts.name), pointer(counters.name))
