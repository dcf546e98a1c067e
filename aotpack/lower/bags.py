"""Rows collected in bags, and values counted in bins: embedding_bag, histc."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Int
from aotpack.ir.nodes import Value
from aotpack.lower.context import Context, Index, Scalar, Shape, is_empty
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.scatter import Points, count_hits, take_in
from aotpack.lower.values import apply, cast, constant, index_from, position, target_from, where
from aotpack.lower.view import wrapped
from aotpack.stages import Ref

SUM, MEAN, MAX = range(3)


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
    shape = c.shape(c.result())
    if is_empty((*shape, *c.shape(indices))):
        c.pointwise(c.result(), lambda index: constant(0, c.dtype(c.result())))
        return
    rows, wide = c.shape(weight)[0], c.dtype(weight).compute
    bag = _bags(c, indices, offsets, shape[0], padding)

    def row(point: Index) -> Value:
        entry = index_from(c.load(indices, point[:1]), rows)
        element = c.load(weight, (entry, point[1]))
        if per_sample_weights is None:
            return element
        return apply("mul", element, cast(c.load(per_sample_weights, point[:1]), wide))

    spots = Points((c.shape(indices)[0], shape[1]), lambda point: (bag(point), point[1]))
    if mode == SUM:
        zeros = _filled(c, "zeros", c.dtype(c.result()), shape, 0)
        take_in(c, c.result(), zeros, "sum", spots, row)
        return
    start = _filled(c, "start", wide, shape, float("-inf") if mode == MAX else 0)
    total = c.temporary("total", wide, shape)
    take_in(c, total, start, "max" if mode == MAX else "sum", spots, row)
    sizes = Points(spots.over[:1], lambda point: (bag(point),))
    size = count_hits(c, sizes, shape[:1])

    def finished(index: Index) -> Value:
        members, whole = c.load(size, index[:1]), c.load(total, index)
        if mode == MAX:
            return where(apply("gt", members, 0), whole, 0.0)
        return apply("div", whole, apply("maximum", cast(members, wide), 1))

    c.pointwise(c.result(), finished)


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
    """A negative padding index means none, where the public operator counts from the end."""
    padding = None if padding_idx < 0 else padding_idx
    options = (False, mode, False, per_sample_weights, include_last_offset, padding)
    embedding_bag(c, weight, indices, offsets, *options)


def _bags(
    c: Context, indices: Ref, offsets: Ref, count: Int, padding: Int | None
) -> Callable[[Index], Int]:
    """The bag of each place: how many offsets are up to it, less one; padding is in none."""
    length = c.shape(indices)[0]
    starts = Points(c.shape(offsets), lambda point: (target_from(c.load(offsets, point), length),))
    begun = count_hits(c, starts, (length,))
    number = c.temporary("bag", DType.INT64, (length,))
    c.scan((number,), "sum", 0, lambda place: cast(c.load(begun, place), DType.INT64))

    def bag(point: Index) -> Int:
        found = apply("sub", c.load(number, point[:1]), 1)
        if padding is not None:
            entry = cast(c.load(indices, point[:1]), DType.INT64)
            found = where(apply("eq", entry, position(padding)), position(count), found)
        return target_from(found, count)

    return bag


def _filled(c: Context, role: str, dtype: DType, shape: Shape, number: Scalar) -> Ref:
    """A tensor of one number."""
    filled = c.temporary(role, dtype, shape)
    c.pointwise(filled, lambda index: constant(number, dtype))
    return filled


# --- bins ---------------------------------------------------------------------------------------


@lowering("aten.histc.default")
def histc(c: Context, self: Ref, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> None:
    """Counts in equal bins over [min, max]; between the extreme elements if both are equal."""
    dtype = c.dtype(self).compute
    if not dtype.is_float:
        raise CannotLower(f"{dtype} tensors are not accepted")
    if is_empty(c.shape(self)):
        c.pointwise(c.result(), lambda index: constant(0, dtype))
        return
    low, high = _range(c, self, min, max)

    def place(point: Index) -> Index:
        x = c.load(self, point)
        scaled = apply("mul", apply("sub", x, low), bins)
        number = cast(apply("div", scaled, apply("sub", high, low)), DType.INT64)
        inside = apply("logical_and", apply("ge", x, low), apply("le", x, high))
        return (target_from(where(inside, apply("minimum", number, bins - 1), bins), Int.of(bins)),)

    counts = count_hits(c, Points(c.shape(self), place), (Int.of(bins),))
    c.pointwise(c.result(), lambda index: cast(c.load(counts, index), dtype))


def _range(c: Context, self: Ref, low: Scalar, high: Scalar) -> tuple[Value, Value]:
    dtype = c.dtype(self).compute
    if low != high:
        return constant(low, dtype), constant(high, dtype)
    extremes = []
    for kind in ("min", "max"):
        extreme = c.temporary(kind, dtype, ())
        c.reduction((extreme,), kind, c.shape(self), lambda _, inner: (c.load(self, inner),))
        extremes.append(c.load(extreme, ()))
    first, last = extremes
    is_one = apply("eq", first, last)
    return where(is_one, apply("sub", first, 1), first), where(is_one, apply("add", last, 1), last)
