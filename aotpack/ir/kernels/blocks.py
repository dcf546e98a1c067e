"""Find the accesses that touch rectangles of memory, from the canonical form of their offsets.

    offset = 64*(x//8) + x%8 + 4096*g,  blocks of 4 along x, one g a program

    base 4096*g + 64*(start//8);  one dimension of 8 elements, stride 1, from start%8

A term of two axes, or of a loaded index, gives no rectangle. An axis times a constant or a size is
a dimension. So is the last digit of an axis if blocks do not cross its end; the higher digits are
then constant in a block and move its base. An unused axis is a broadcast. A block may cross the
border of a size only if the block does not divide it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aotpack.ir.symbolic.facts import known_le, known_multiple
from aotpack.ir.symbolic.integers import (
    Atom,
    Axis,
    Indirect,
    Int,
    Monomial,
    Quotient,
    Remainder,
    ceil_div,
)


@dataclass(frozen=True, slots=True)
class Dimension:
    """``length`` of ``size`` elements from ``start`` on, ``stride`` apart.

    In ``start`` the axis stands for the first index of the block.
    """

    axis: Axis
    length: int
    size: Int
    stride: Int
    start: Int


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle at ``base``, an offset in which axes stand for the first index of a block."""

    base: Int
    dimensions: tuple[Dimension, ...]


def block_of(offset: Int, sides: Sequence[tuple[Axis, int]]) -> Block | None:
    """The rectangle that an access touches in blocks of the given lengths along axes, or None.

    Other axes are constant in a program. Dimensions come in the order of ``sides``.
    """
    lengths = dict(sides)
    base = Int.of(0)
    terms: dict[Axis, list[tuple[Monomial, int]]] = {axis: [] for axis in lengths}
    for monomial, coefficient in offset.terms:
        used = {
            leaf
            for atom in monomial
            for leaf in Int.of(atom).leaves()
            if leaf in lengths or isinstance(leaf, Indirect)
        }
        if not used:
            base += Int(((monomial, coefficient),))
            continue
        if len(used) > 1 or not isinstance(axis := used.pop(), Axis):
            return None
        terms[axis].append((monomial, coefficient))
    dimensions: list[Dimension] = []
    for axis, length in sides:
        if not terms[axis]:
            continue
        found = _dimension(axis, length, terms[axis])
        if found is None:
            return None
        dimension, rest = found
        dimensions.append(dimension)
        base += rest
    return Block(base, tuple(dimensions))


MOST_DIMENSIONS = 5  # of a tensor descriptor


def placed_block(block: Block, itemsize: int) -> Block | None:
    """The rectangle of more dimensions that has a fixed base: axes of the base become its own.

    Before: base 4096*(h//4), rows of 64.  After: base 0, matrices 4096 apart, from h//4 on.
    None where there are too many, or a term has no bounds.
    """
    base = Int.of(0)
    outer: list[Dimension] = []
    for monomial, coefficient in block.base.terms:
        moving = [atom for atom in monomial if _has_axis(atom)]
        if not moving:
            base += Int(((monomial, coefficient),))
            continue
        stride = Int(((tuple(atom for atom in monomial if atom not in moving), coefficient),))
        size = _size(moving[0]) if len(moving) == 1 else None
        if size is None or not known_multiple(stride, DESCRIPTOR_BYTES // itemsize):
            return None
        if not known_le(1, stride):
            return None
        outer.append(Dimension(block.dimensions[0].axis, 1, size, stride, Int.of(moving[0])))
    dimensions = (*outer, *block.dimensions)
    return Block(base, dimensions) if len(dimensions) <= MOST_DIMENSIONS else None


def _has_axis(atom: Atom) -> bool:
    return any(isinstance(leaf, Axis) for leaf in Int.of(atom).leaves())


def _size(atom: Atom) -> Int | None:
    """How many values an axis or a digit of it takes."""
    if isinstance(atom, Axis):
        return atom.extent
    if isinstance(atom, Remainder) and isinstance(atom.num.atom, Axis):
        return atom.den
    if isinstance(atom, Quotient) and isinstance(atom.num.atom, Axis):
        return ceil_div(atom.num.atom.extent, atom.den)
    return None


def _dimension(
    axis: Axis, length: int, terms: list[tuple[Monomial, int]]
) -> tuple[Dimension, Int] | None:
    """The dimension that the terms of an axis form, and the offset that is constant in a block."""
    walked: list[tuple[Int, Int, Int]] = []  # size, stride, start
    rest = Int.of(0)
    for monomial, coefficient in terms:
        moving = [atom for atom in monomial if axis in Int.of(atom).leaves()]
        if len(moving) != 1:
            return None
        (atom,) = moving
        stride = Int(((tuple(a for a in monomial if a is not atom), coefficient),))
        if atom is axis:
            walked.append((axis.extent, stride, Int.of(axis)))
        elif not isinstance(atom, (Quotient, Remainder)) or atom.num.atom is not axis:
            return None
        elif not known_multiple(atom.den, length) or not known_multiple(axis.extent, length):
            return None  # a block may cross the end of the digit, or of the axis
        elif isinstance(atom, Remainder):
            walked.append((atom.den, stride, Int.of(atom)))
        else:
            rest += Int(((monomial, coefficient),))
    if len(walked) != 1:
        return None
    size, stride, start = walked[0]
    return Dimension(axis, length, size, stride, start), rest


DESCRIPTOR_BYTES = 16  # alignment of addresses, strides and rows of a block
LONGEST_SIDE = 256  # elements of a block in a descriptor


def described_block(offset: Int, sides: Sequence[tuple[Axis, int]], itemsize: int) -> Block | None:
    """The rectangle of an access that a tensor descriptor can describe, innermost dimension last.

    Base and strides are multiples of 16 bytes, no stride is negative, the innermost one is one
    element, and a row of the block has at least 16 bytes. None for other accesses.
    """
    block = block_of(offset, sides)
    if block is None or len(block.dimensions) != len(sides):
        return None
    inner = [one for one in block.dimensions if one.stride.constant == 1]
    if len(inner) != 1:
        return None
    outer = [one for one in block.dimensions if one is not inner[0]]
    elements = DESCRIPTOR_BYTES // itemsize
    whole = [block.base, *(one.stride for one in outer), Int.of(inner[0].length)]
    if not all(known_multiple(part, elements) for part in whole):
        return None
    if any(one.length > LONGEST_SIDE or not known_le(1, one.stride) for one in block.dimensions):
        return None
    return Block(block.base, (*outer, *inner))
