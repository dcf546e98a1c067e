"""Heads as blocks of a power of two elements, side by side: 80 as 64 and 16."""

from dataclasses import dataclass

from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis

GROUP_ROWS = 64  # queries of four warps, which the tensor cores multiply together
_SHORTEST, _WHOLE = 16, 64  # elements; heads up to the latter are one block
_MOST_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class HeadBlock:
    """``length`` elements of a head from ``start`` on."""

    start: int
    length: int


def head_blocks(axis: Axis) -> tuple[HeadBlock, ...]:
    """The blocks of a head, the longest first; the last may go beyond its end."""
    extent = max(_SHORTEST, int(bounds(axis.extent)[1]))
    if extent <= _WHOLE:
        return (HeadBlock(0, 1 << (extent - 1).bit_length()),)
    found: list[HeadBlock] = []
    start = 0
    while start < extent:
        rest = max(_SHORTEST, extent - start)
        is_last = len(found) + 1 == _MOST_BLOCKS
        length = 1 << ((rest - 1).bit_length() if is_last else rest.bit_length() - 1)
        found.append(HeadBlock(start, length))
        start += length
    return tuple(found)
