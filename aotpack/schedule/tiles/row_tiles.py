"""Tiles for rows in registers: the rows of a program, and the warps that hold them.

Measured on an H200 (``docs/decisions/019-warps-follow-from-bytes.md``): memory is fastest with
about 64 KB in flight for each multiprocessor, that is 2048 threads that wait for 32 bytes each.
With 100 KB kernels take 2 to 4 % longer, since reads and writes disturb each other; with 30 KB they
wait. So a thread reads 32 bytes of a row, of all tensors together. Programs are small, so that some
read while others compute, but a GPU starts a limited number in the time their bytes take.
"""

from collections.abc import Iterable
from math import log2

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.access import VECTOR_BYTES, Access, Strides, accesses
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import typical

BYTES_OF_THREAD = 32  # read of a row, or of a plane's tile
SMALLEST = 1024  # elements of a program, where rows are many
LEAST_TRAFFIC = 3072  # bytes of a program: 1600 start in a microsecond, and an H200 moves 4 MB
MOST_WARPS = 16
LONGEST_OF_MOST = 4096  # elements of a row; with longer ones too few programs of MOST_WARPS fit


def row_tiles(
    kernel: Kernel, program: Program, strides: Strides, r: int, gpu: Gpu
) -> tuple[ReductionTile, ReductionTile]:
    """Tiles for few and for many rows of at most ``r`` elements, a power of two.

    If each row has a multiprocessor, it takes as long as its threads need.
    """
    row = kernel.axes[1].extent.constant or r
    along = _along(kernel, strides)
    read = _widths((a for a in along if not a.is_store), program) or [4]
    moved = row * (sum(read) + sum(_widths((a for a in along if a.is_store), program)))
    alone, together = max(1, SMALLEST // 2 // r), max(1, SMALLEST // r)
    least = LEAST_TRAFFIC * (gpu.bandwidth / H200.bandwidth)
    while together * moved < least and together * r < 2 * SMALLEST:
        together *= 2
    few, many = (_warps(kernel, rows, r, read) for rows in (alone, together))
    if typical(kernel.axes[0].extent) <= gpu.multiprocessors:
        few = min(MOST_WARPS, max(1, r // 256))
    return (
        ReductionTile(alone, r, persistent=True, num_warps=few),
        ReductionTile(together, r, persistent=True, num_warps=many),
    )


def _warps(kernel: Kernel, rows: int, r: int, read: list[int]) -> int:
    """The warps for these rows; half of them if more than an eighth of a row's would be idle.

    All threads read a vector each, then the next. At the end idle ones still hold registers: 5120
    elements of 16 bits are two and a half reads of 8 warps and five of 4. Merging positions across
    warps has a cost, so an argmax has few.
    """
    row = kernel.axes[1].extent.constant or r
    wanted = rows * row * sum(read) / (WARP * BYTES_OF_THREAD)
    if _finds_positions(kernel):
        wanted = rows * row / SMALLEST
    most = MOST_WARPS if r <= LONGEST_OF_MOST else MOST_WARPS // 2
    vectors = WARP * (VECTOR_BYTES // max(read))  # elements that a warp reads at once
    warps = min(most, 1 << max(0, round(log2(max(1, wanted)))))
    while warps > 1 and warps * vectors > rows * r:
        warps //= 2
    idle = -row % (warps * vectors) if rows == 1 else 0
    return max(1, warps // 2) if 8 * idle > row + idle else warps


def _finds_positions(kernel: Kernel) -> bool:
    """True for reductions that find positions."""
    return any(MONOIDS[one.kind].gives_positions for one in kernel.reductions)


def _along(kernel: Kernel, strides: Strides) -> list[Access]:
    """The accesses that go along rows."""
    axes = set(kernel.axes)
    return [a for a in accesses(kernel) if axes <= set(a.offset(strides).leaves())]


def _widths(touched: Iterable[Access], program: Program) -> list[int]:
    """Bytes of an element of each of the tensors."""
    return [program.buffers[name].dtype.itemsize for name in sorted({a.buffer for a in touched})]
