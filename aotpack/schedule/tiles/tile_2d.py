"""Two-dimensional tiles: a pointwise kernel gets an axis for each contiguous direction.

    for x:    out[x] = a[x] + b[x % N * M + x // N]
    for y, x: out[y*N + x] = a[y*N + x] + b[x*M + y]        # the same, over lines of N points

One-dimensional blocks would read a cache line of b for every element.

If lines of b do not begin at whole cache lines, neighbouring tiles share some of these. Programs go
along lines of the result; if a line of tiles fills half of L2, they go down a band of lines (on an
H200, 128256 columns: 121 to 106 us, 2026-11-22).
"""

from collections.abc import Iterable

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import Access, Strides, accesses, local_slope, places
from aotpack.ir.kernels.kernel import Kernel, unflattened
from aotpack.ir.kernels.tiles import SHORTEST_SIDE, WARP, Tile2D
from aotpack.ir.program import Program
from aotpack.ir.symbolic.division import exact_quotient
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Int, Quotient, Remainder
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.tiles.row_tiles import BYTES_OF_THREAD, MOST_WARPS

SIDE = 64  # points, of a tile
BAND = 16  # lines of tiles


def tile_2d(kernel: Kernel, program: Program, strides: Strides, gpu: Gpu) -> Tile2D | None:
    """The tile with lines that make most strided accesses contiguous; None if there are none.

    Large tensors that are still strided along both sides get a third side.
    """
    (flat,) = kernel.axes
    width = _best(
        (_gained_bytes(unflattened(kernel, width), program, strides), width)
        for width in _widths(list(accesses(kernel)), flat, strides)
    )
    if width is None:
        return None
    lines = unflattened(kernel, width)
    y = lines.axes[0]
    height = _best(
        (_gained_bytes(unflattened(kernel, width, height), program, strides), height)
        for height in _widths(list(accesses(lines)), y, strides)
    )
    if height is None:
        return _flat_tile(lines, program, strides, gpu)
    return Tile2D(width, 16, 16, num_warps=8, height=height, z=16)


def _flat_tile(lines: Kernel, program: Program, strides: Strides, gpu: Gpu) -> Tile2D:
    """Square tiles, in bands of lines if a line of tiles fills half of L2."""
    width = lines.axes[1].extent
    touched = [a for a, at in places(lines, strides) if set(lines.axes) <= set(at.leaves())]
    widths = [(program.buffers[a.buffer].dtype.itemsize, a.is_store) for a in touched]
    line_bytes = typical(width) * SIDE * sum(size for size, _ in widths)
    band = BAND if line_bytes > gpu.l2 // 2 else 1
    read = SIDE * SIDE * sum(size for size, is_store in widths if not is_store)
    warps = max(1, read // (BYTES_OF_THREAD * WARP))
    return Tile2D(width, SIDE, SIDE, min(MOST_WARPS, 1 << warps.bit_length() - 1), band=band)


def _best(scored: Iterable[tuple[int, Int]]) -> Int | None:
    """The length that gains most bytes, if any does."""
    score, best = max(scored, key=lambda one: one[0], default=(0, None))
    return best if score > 0 else None


def _widths(touched: list[Access], flat: Axis, strides: Strides) -> list[Int]:
    """The lengths of the last digit of the flat position that some address is computed with."""
    found: dict[Int, None] = {}
    for access in touched:
        for atom in access.offset(strides).atoms():
            if isinstance(atom, (Quotient, Remainder)) and atom.num.atom is flat:
                found[atom.den] = None
    sides = ((width, exact_quotient(flat.extent, width)) for width in found)
    return [
        width
        for width, other in sides
        if other is not None and min(typical(width), typical(other)) >= SHORTEST_SIDE
    ]


def _gained_bytes(kernel: Kernel, program: Program, strides: Strides) -> int:
    """Bytes that are contiguous along the outermost side and strided along the others."""
    first, *others = kernel.axes
    gained = 0
    for access, offset in places(kernel, strides):
        jumps = any(local_slope(offset, axis) not in (0, 1) for axis in others)
        along = any(local_slope(offset, axis) == 1 for axis in others)
        if local_slope(offset, first) == 1 and jumps and not along:
            gained += typical_bytes(program.buffers[access.buffer])
    return gained
