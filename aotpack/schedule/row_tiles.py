"""Rows that stay in registers: how many threads hold one, and how many rows share a program.

Measured on an H200: memory serves best when about 64 KB are on their way to each multiprocessor
(2048 threads that wait for 32 bytes each). With 100 KB and more, kernels take 2 to 4 % longer:
reads and writes disturb each other; with 30 KB they wait. So a row gets a thread for each 32
bytes that are read of it, of all tensors together, and programs are as small as they can be.

Rows C:B16, H13, L2.
"""

from math import log2

from aotpack.ir.access import Strides, accesses
from aotpack.ir.facts import typical
from aotpack.ir.nodes import Program
from aotpack.ir.schedule import Kernel, ReductionTile
from aotpack.schedule.promises import VECTOR_BYTES

WARP = 32  # threads
MOST_WARPS = 16
BYTES_OF_THREAD = 32  # of a row
FEW_ROWS = 132  # up to here they all run at once, and a row takes as long as its threads need
SHORTEST_ALONE = 1024  # elements; shorter rows share programs, of which so many can be begun


def row_tiles(
    kernel: Kernel, program: Program, strides: Strides, r: int
) -> tuple[ReductionTile, ReductionTile]:
    """Tiles for few and for many rows of at most ``r`` elements, a power of two."""
    warps = _row_warps(kernel, program, strides, r)
    hurried = min(MOST_WARPS, max(1, r // 256))
    few = ReductionTile(
        max(1, 512 // r),
        r,
        persistent=True,
        num_warps=warps if typical(kernel.axes[0].extent) > FEW_ROWS else hurried,
    )
    if r >= SHORTEST_ALONE:
        return few, few
    return few, ReductionTile(2048 // r, r, persistent=True, num_warps=2)


def _row_warps(kernel: Kernel, program: Program, strides: Strides, r: int) -> int:
    """The warps of a row; half of them if lanes are left idle with more.

    All threads read a vector each, then the next. The last time some find nothing left, but hold
    registers for it: 5120 elements of 16 bits are two and a half reads of 8 warps and five of 4.
    """
    length = kernel.axes[1].extent.constant or r
    widths = _widths(kernel, program, strides)
    wanted = max(1.0, length * sum(widths) / (WARP * BYTES_OF_THREAD))
    together = WARP * (VECTOR_BYTES // max(widths))  # elements that a warp reads at once
    warps = min(MOST_WARPS, 1 << round(log2(wanted)), max(1, r // together))
    fewer = max(1, warps // 2)
    return min(warps, fewer, key=lambda n: (-(-length // (n * together)) * n, -n))


def _widths(kernel: Kernel, program: Program, strides: Strides) -> list[int]:
    """Bytes of an element of each tensor that is read row by row; 4 if there is none."""
    x, r = kernel.axes
    found = {
        access.buffer
        for access in accesses(kernel)
        if not access.is_store and {x, r} <= set(access.offset(strides).leaves())
    }
    return [program.buffers[name].dtype.itemsize for name in found] or [4]
