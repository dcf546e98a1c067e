"""embedding_bag, and embedding_renorm.

Bags of one size are a reduction. Other bags begin at offsets, which are data: each entry of the
index list finds its bag by counting the offsets up to it, and its row is scattered there.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, Shape, is_empty
from aotpack.lower.indexing.scatter import Points, count_hits, take_in
from aotpack.lower.reductions.variance_norms import norm_parts
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, index_from, position, target_from, where
from aotpack.lower.views.view import wrapped
from aotpack.stages import Ref

SUM, MEAN, MAX = range(3)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table that indices list, with factors; ``padding`` is a row to skip."""

    c: Context
    table: Ref
    indices: Ref
    factors: Ref | None
    padding: Int | None

    @property
    def wide(self) -> DType:
        """The type in which rows are combined."""
        return self.c.dtype(self.table).compute

    def element(self, place: Int, column: Int) -> Value:
        """One element of the row at a position of the list."""
        c = self.c
        entry = index_from(c.load(self.indices, (place,)), c.shape(self.table)[0])
        element = c.load(self.table, (entry, column))
        if self.factors is None:
            return element
        return apply("mul", element, cast(c.load(self.factors, (place,)), self.wide))

    def or_padding(self, place: Int, value: Value, otherwise: Value) -> Value:
        """``value``, or ``otherwise`` for an entry that is padding."""
        if self.padding is None:
            return value
        entry = cast(self.c.load(self.indices, (place,)), DType.INT64)
        return where(apply("ne", entry, position(self.padding)), value, otherwise)


@lowering("aten.embedding_bag.default", "aten.embedding_bag.padding_idx")
def embedding_bag(
    c: Context,
    weight: Ref,
    indices: Ref,
    offsets: Ref,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Ref | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> None:
    """Each bag is the sum, mean or maximum of the rows from its offset to the next."""
    padding = None if padding_idx is None else wrapped(padding_idx, c.shape(weight)[0])
    if any(map(c.is_used, range(1, len(c.node.results)))):
        raise CannotLower("only its first result is accepted; the others are for training")
    if is_empty((*c.shape(c.result()), *c.shape(indices))):
        c.pointwise(c.result(), lambda index: constant(0, c.dtype(c.result())))
        return
    rows = _Rows(c, weight, indices, per_sample_weights, padding)
    size = _equal_size(c, indices, offsets)
    if size is None:
        _scatter_rows(rows, offsets, mode)
    else:
        _reduce_rows(rows, size, mode)


@lowering("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def bare_embedding_bag(
    c: Context,
    weight: Ref,
    indices: Ref,
    offsets: Ref,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Ref | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> None:
    """A negative padding index means none; the public operator counts it from the end."""
    padding = None if padding_idx < 0 else padding_idx
    options = (False, mode, False, per_sample_weights, include_last_offset, padding)
    embedding_bag(c, weight, indices, offsets, *options)


def _finish(rows: _Rows, mode: int, total: Ref, size: Ref) -> None:
    """Write the result from the sum or maximum and the number of rows; empty bags are 0."""
    c = rows.c

    def value(index: Index) -> Value:
        members, whole = c.load(size, index[:1]), c.load(total, index)
        if mode == MAX:
            return where(apply("gt", members, 0), whole, 0.0)
        return apply("div", whole, apply("maximum", cast(members, rows.wide), 1))

    c.pointwise(c.result(), value)


# --- bags of one size ---------------------------------------------------------------------------


def _equal_size(c: Context, indices: Ref, offsets: Ref) -> Int | None:
    """The size of every bag if the offsets are known multiples of it, else None."""
    made = c.producer(offsets)
    if made is None or made.op != "aten.arange.start_step" or len(made.args) < 3:
        return None
    start, _, step = made.args[:3]
    if start not in (0, Int.of(0)) or not isinstance(step, (int, Int)):
        return None
    count = c.shape(c.result())[0]
    return Int.of(step) if known_equal(count * step, c.shape(indices)[0]) else None


def _reduce_rows(rows: _Rows, size: Int, mode: int) -> None:
    c, wide, shape = rows.c, rows.wide, rows.c.shape(rows.c.result())
    fill = constant(float("-inf") if mode == MAX else 0, wide)
    one, none = constant(1, DType.INT32), constant(0, DType.INT32)

    def element(outer: Index, inner: Index) -> tuple[Value, ...]:
        place = outer[0] * size + inner[0]
        return (rows.or_padding(place, rows.element(place, outer[1]), fill),)

    def member(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (rows.or_padding(outer[0] * size + inner[0], one, none),)

    total = c.temporary("total", wide, shape)
    c.reduction((total,), "max" if mode == MAX else "sum", (size,), element)
    if mode == SUM:
        c.pointwise(c.result(), lambda index: c.load(total, index))
        return
    count = c.temporary("size", DType.INT32, shape[:1])
    c.reduction((count,), "sum", (size,), member)
    _finish(rows, mode, total, count)


# --- bags between offsets -----------------------------------------------------------------------


def _scatter_rows(rows: _Rows, offsets: Ref, mode: int) -> None:
    c, shape = rows.c, rows.c.shape(rows.c.result())
    number = _bag_numbers(c, rows.indices, offsets)

    def bag(place: Int) -> Int:
        found = apply("sub", c.load(number, (place,)), 1)
        return target_from(rows.or_padding(place, found, position(shape[0])), shape[0])

    length = c.shape(rows.indices)[0]
    points = Points((length, shape[1]), lambda point: (bag(point[0]), point[1]))
    if mode == SUM:
        zeros = _filled(c, "zeros", c.dtype(c.result()), shape, 0)
        take_in(c, c.result(), zeros, "sum", points, lambda point: rows.element(*point))
        return
    start = _filled(c, "start", rows.wide, shape, float("-inf") if mode == MAX else 0)
    total = c.temporary("total", rows.wide, shape)
    kind = "max" if mode == MAX else "sum"
    take_in(c, total, start, kind, points, lambda point: rows.element(*point))
    sizes = Points((length,), lambda point: (bag(point[0]),))
    _finish(rows, mode, total, count_hits(c, sizes, shape[:1]))


def _bag_numbers(c: Context, indices: Ref, offsets: Ref) -> Ref:
    """The number of offsets up to each position of the list."""
    length = c.shape(indices)[0]
    starts = Points(c.shape(offsets), lambda point: (target_from(c.load(offsets, point), length),))
    begun = count_hits(c, starts, (length,))
    number = c.temporary("bag", DType.INT64, (length,))
    c.scan((number,), "sum", 0, lambda place: cast(c.load(begun, place), DType.INT64))
    return number


def _filled(c: Context, role: str, dtype: DType, shape: Shape, number: Scalar) -> Ref:
    """A tensor of one number."""
    filled = c.temporary(role, dtype, shape)
    c.pointwise(filled, lambda index: constant(number, dtype))
    return filled


@lowering("aten.embedding_renorm.default")
def embedding_renorm(
    c: Context, self: Ref, indices: Ref, max_norm: float, norm_type: float
) -> None:
    """Scale the listed rows with a norm above ``max_norm`` to ``max_norm``."""
    rows, width = c.shape(self)
    wide = c.dtype(self).compute
    kind, element, finish = norm_parts(float(norm_type))
    state = c.temporary(kind, wide, (rows,))
    c.reduction(
        (state,), kind, (width,), lambda row, column: (element(c.load(self, (*row, *column))),)
    )

    def place(point: Index) -> Index:
        return (target_from(c.load(indices, point), rows, from_end=True),)

    hits = count_hits(c, Points(c.shape(indices), place), (rows,))

    def value(index: Index) -> Value:
        norm = finish(c.load(state, index[:1]))
        factor = apply("div", constant(max_norm, wide), apply("add", norm, 1e-7))
        is_long = apply("gt", norm, max_norm)
        is_meant = apply("logical_and", is_long, apply("gt", c.load(hits, index[:1]), 0))
        old = c.load(self, index)
        return where(is_meant, apply("mul", old, factor), old)

    c.pointwise(c.result(), value)
