"""Grouped matrix products (mixtures of experts): batched products over blocks of sorted rows.

    out[s] = x[s] @ w[g]    for ends[g - 1] <= s < ends[g]

Each group's rows are cut into blocks, of which only the last may be short, so that a block has one
matrix: a batched product over blocks, whose right factor is read through the block's group. The
number of blocks depends on data; it is at most rows // size + groups.

Source: block-sparse products of experts, as in Gale et al., MegaBlocks (2022).
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.ordering import clamped_index
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Int, minimum
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, is_empty
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.linalg.matmul import emit_product, matmul, stored_type
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, position, where
from aotpack.stages import Ref

_LEAST, _MOST = 16, 128  # rows of a block: those of a product's tile


@lowering("aten._grouped_mm.default")
def grouped_mm(
    c: Context,
    self: Ref,
    mat2: Ref,
    offs: Ref | None = None,
    bias: Ref | None = None,
    out_dtype: DType | None = None,
) -> None:
    """Groups of rows, or a batched product for two batches without ``offs``."""
    ranks = c.rank(self), c.rank(mat2)
    if bias is not None:
        raise CannotLower("a bias is not accepted; add it to what comes out")
    if ranks == (3, 3) and offs is None:
        matmul(c, self, mat2)
        return
    if ranks != (2, 3) or offs is None:
        raise CannotLower(
            f"factors of {ranks[0]} and {ranks[1]} dimensions are not accepted; accepted are rows "
            "[s, k] and matrices [g, k, n] with offs, and [g, s, k] and [g, k, n] without"
        )
    grouped_rows(c, self, mat2, offs)


@lowering("transformers.grouped_mm_fallback.default")
def grouped_rows(c: Context, input: Ref, weight: Ref, offs: Ref) -> None:
    """``input`` [s, k], ``weight`` [g, k, n], ``offs`` [g]: ends of groups. Later rows are 0."""
    rows, (groups, depth, columns) = c.shape(input)[0], c.shape(weight)
    if is_empty((rows, groups)):
        c.pointwise(c.result(), lambda index: constant(0, c.dtype(c.result())))
        return
    blocks = _cut(c, offs, rows)
    operand = c.dtype(input)
    shape = (blocks.count, Int.of(blocks.size), columns)
    product = c.temporary("product", stored_type(operand, result_dtype(c)), shape)

    def left(batch: Index, m: Int, k: Int) -> Value:
        row = apply("add", c.load(blocks.first, batch), position(m))
        return c.load(input, (_inside(row, rows), k))

    def right(batch: Index, k: Int, n: Int) -> Value:
        return c.load(weight, (_inside(c.load(blocks.group, batch), groups), k, n))

    emit_product(c, product, operand, depth, left, right)

    def value(index: Index) -> Value:
        place = c.load(blocks.place, index[:1])
        block = _inside(apply("shift_right", place, blocks.shift), blocks.count)
        within = as_index(apply("bitwise_and", place, blocks.size - 1), Int.of(blocks.size))
        found = c.load(product, (block, within, index[1]))
        return where(apply("ge", place, 0), found, constant(0, found.dtype))

    c.pointwise(c.result(), value)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """``count`` blocks of ``size`` rows, described by int64 tensors.

    ``group`` and ``first`` [count]: a block's group and first row; undefined for unused blocks.
    ``place`` [rows]: a row's block times ``size``, plus its position in the block; -1 for a row of
    no group.
    """

    size: int
    count: Int
    group: Ref
    first: Ref
    place: Ref

    @property
    def shift(self) -> int:
        """The binary logarithm of the size."""
        return self.size.bit_length() - 1


def _cut(c: Context, offs: Ref, rows: Int) -> _Blocks:
    (groups,) = c.shape(offs)
    each = typical(rows) // max(1, typical(groups))
    size = min(_MOST, max(_LEAST, 1 << max(0, each - 1).bit_length()))
    shift, count = size.bit_length() - 1, rows // size + minimum(groups, rows)

    def blocks_of(index: Index) -> Value:
        length = apply("sub", _end(c, offs, index[0]), _start(c, offs, index[0]))
        return apply("shift_right", apply("add", length, size - 1), shift)

    ends = c.temporary("ends", DType.INT64, (groups,))  # like offs, in blocks
    c.scan((ends,), "sum", 0, blocks_of)
    group, owner = _group_of(c, "group", ends, count), _group_of(c, "owner", offs, rows)

    def first_row(index: Index) -> Value:
        own = _inside(c.load(group, index), groups)
        before = apply("sub", position(index[0]), _start(c, ends, own))
        return apply("add", _start(c, offs, own), apply("shift_left", before, shift))

    def place_of(index: Index) -> Value:
        found = c.load(owner, index)
        own = _inside(found, groups)
        within = apply("sub", position(index[0]), _start(c, offs, own))
        place = apply("add", apply("shift_left", _start(c, ends, own), shift), within)
        return where(apply("lt", found, position(groups)), place, -1)

    first = c.temporary("first", DType.INT64, (count,))
    place = c.temporary("place", DType.INT64, (rows,))
    c.pointwise(first, first_row)
    c.pointwise(place, place_of)
    return _Blocks(size, count, group, first, place)


def _group_of(c: Context, role: str, ends: Ref, count: Int) -> Ref:
    """The group of each number below ``count``: the number of ends up to it."""
    found = c.temporary(role, DType.INT64, (count,))

    def ended(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (cast(apply("le", _end(c, ends, inner[0]), position(outer[0])), DType.INT64),)

    c.reduction((found,), "sum", c.shape(ends), ended)
    return found


def _end(c: Context, ends: Ref, group: Int) -> Value:
    return cast(c.load(ends, (group,)), DType.INT64)


def _start(c: Context, ends: Ref, group: Int) -> Value:
    """The start of a group: the end of the one before it."""
    before = _inside(position(group - 1), c.shape(ends)[0])
    return where(apply("gt", position(group), 0), _end(c, ends, before), 0)


def _inside(place: Value, size: Int) -> Int:
    """A position as an index, clamped against invalid ``offs``."""
    return clamped_index(apply("maximum", place, 0), size)
