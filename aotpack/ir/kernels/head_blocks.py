"""The heads of attention as blocks that the copy engine loads: 80 elements as 64 and 16.

Each is a rectangle of memory at a fixed place: batch and head are dimensions of its descriptor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import dot
from aotpack.ir.kernels.blocks import Block, described_block, placed_block
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value

GROUP_ROWS = 64  # queries of four warps, which the tensor cores multiply together
GROUP_WARPS = 4
_SHORTEST, _WHOLE = 16, 64  # elements; heads up to the latter are one block


@dataclass(frozen=True, slots=True)
class HeadBlock:
    """``length`` elements of a head from ``start`` on; ``block`` is where they lie in memory."""

    start: int
    length: int
    buffer: str
    block: Block


@dataclass(frozen=True, slots=True)
class AttendedHeads:
    """The blocks of the factors of attention."""

    query: tuple[HeadBlock, ...]
    key: tuple[HeadBlock, ...]
    value: tuple[HeadBlock, ...]


def attended_heads(
    o: Attention,
    keys: int,
    dtypes: Mapping[str, DType],
    strides: Mapping[str, tuple[Int, ...]],
) -> AttendedHeads | None:
    """The blocks of 64 queries and of so many ``keys``; None if a factor is no rectangle.

    ``dtypes`` are those of buffers in memory. Elements are not rounded on the way.
    """

    def blocks(value: Value, rows: tuple[Axis, int], inner: Axis) -> tuple[HeadBlock, ...]:
        if not isinstance(value, Load) or dtypes.get(value.buffer) is not o.operand:
            return ()
        offset = dot(value.index, strides[value.buffer])
        found: list[HeadBlock] = []
        for start, length in head_lengths(inner):
            block = described_block(offset, (rows, (inner, length)), o.operand.itemsize)
            block = block and placed_block(block, o.operand.itemsize)
            if block is None or block.dimensions[-1].axis is not inner:
                return ()
            found.append(HeadBlock(start, length, value.buffer, block))
        return tuple(found)

    query = blocks(o.query, (o.i, GROUP_ROWS), o.d)
    key = blocks(o.key, (o.j, keys), o.d)
    value = blocks(o.value, (o.j, keys), o.e)
    return AttendedHeads(query, key, value) if query and key and value else None


def head_lengths(axis: Axis) -> tuple[tuple[int, int], ...]:
    """Where the blocks of a head begin, and their lengths; the last may go beyond its end."""
    extent = max(_SHORTEST, int(bounds(axis.extent)[1]))
    if extent <= _WHOLE:
        return ((0, 1 << (extent - 1).bit_length()),)
    first = 1 << extent.bit_length() - 1
    rest = extent - first
    if not rest:
        return ((0, first),)
    return ((0, first), (first, 1 << (max(_SHORTEST, rest) - 1).bit_length()))


def may_have_roles(o: Attention) -> bool:
    """True for the forms that have roles of warps: factors of 16 bits, no mask, no bias.

    There is always a key.
    """
    is_plain = o.mask is None and o.bias is None and o.scale > 0
    is_half = o.operand in (DType.FLOAT16, DType.BFLOAT16)
    heads = (o.d.extent.constant, o.e.extent.constant)
    return is_plain and is_half and None not in heads and bounds(o.j.extent)[0] >= 1
