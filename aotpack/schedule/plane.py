"""Give a pointwise kernel two axes where its accesses walk memory in two directions (C:C1-C3).

    for x:    out[x] = a[x] + b[x % N * M + x // N]
    for y, x: out[y*N + x] = a[y*N + x] + b[x*M + y]        # the same, over lines of N points

One-dimensional blocks would read a cache line of b for every element.

Rows S:D17.
"""

from aotpack.ir.access import Access, Strides, accesses, local_slope
from aotpack.ir.division import exact_quotient
from aotpack.ir.facts import typical
from aotpack.ir.integers import Axis, Int, Quotient, Remainder
from aotpack.ir.nodes import Program
from aotpack.ir.schedule import Kernel, in_lines
from aotpack.schedule.layout import typical_bytes

SHORTEST_SIDE = 16  # points; a side shorter than this is not worth a dimension of the tile


def line_width(kernel: Kernel, program: Program, strides: Strides) -> Int | None:
    """The length of lines that makes most jumping accesses contiguous; None if there are none."""
    (flat,) = kernel.axes
    widths = _widths(list(accesses(kernel)), flat, strides)
    scored = [(_gained_bytes(in_lines(kernel, width), program, strides), width) for width in widths]
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
    """Bytes that are contiguous along y and jumped over along x."""
    y, x = kernel.axes
    gained = 0
    for access in accesses(kernel):
        offset = access.offset(strides)
        if local_slope(offset, y) == 1 and local_slope(offset, x) not in (0, 1):
            gained += typical_bytes(program.buffers[access.buffer])
    return gained
