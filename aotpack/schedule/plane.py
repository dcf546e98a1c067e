"""Give a pointwise kernel two axes where its accesses walk memory in two directions (C:C1-C3).

    for x: out[x] = a[x] + b[x % N * M + x // N]   ->   for y, x: out[y*N + x] = a[y*N + x] + b[x*M + y]

One-dimensional blocks would read a cache line of b for every element.
"""

from dataclasses import replace

from aotpack.ir.access import Access, Strides, accesses, local_slope
from aotpack.ir.division import exact_quotient
from aotpack.ir.facts import typical
from aotpack.ir.integers import Axis, Int, Quotient, Remainder
from aotpack.ir.nodes import Attention, Matmul, Program
from aotpack.ir.schedule import Kernel, Member
from aotpack.schedule.layout import typical_bytes

SHORTEST_SIDE = 16  # points; a side shorter than this is not worth a dimension of the tile


def is_plane(kernel: Kernel) -> bool:
    """True for a kernel over (y, x)."""
    return len(kernel.axes) == 2 and kernel.axes[0].name == "y"


def in_plane(kernel: Kernel, program: Program, strides: Strides) -> Kernel:
    """The kernel over (y, x) if that makes more bytes contiguous; else the same object."""
    if len(kernel.axes) != 1 or isinstance(kernel.members[0].operation, (Matmul, Attention)):
        return kernel
    (flat,) = kernel.axes
    touched = list(accesses(kernel))
    best, best_score = kernel, 0
    for width in _widths(touched, flat, strides):
        split = _split(kernel, flat, width)
        score = _gained_bytes(split, program, strides)
        if score > best_score:
            best, best_score = split, score
    return best


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


def _split(kernel: Kernel, flat: Axis, width: Int) -> Kernel:
    y, x = Axis("y", flat.extent // width), Axis("x", width)
    position = {flat: Int.of(y) * width + x}
    members = tuple(
        Member(
            member.operation,
            tuple((axis, value.substitute(position)) for axis, value in member.binding),
            outer=False,
        )
        for member in kernel.members
    )
    return replace(kernel, axes=(y, x), members=members)


def _gained_bytes(kernel: Kernel, program: Program, strides: Strides) -> int:
    """Bytes that are contiguous along y and jumped over along x."""
    y, x = kernel.axes
    gained = 0
    for access in accesses(kernel):
        offset = access.offset(strides)
        if local_slope(offset, y) == 1 and local_slope(offset, x) not in (0, 1):
            gained += typical_bytes(program.buffers[access.buffer])
    return gained
