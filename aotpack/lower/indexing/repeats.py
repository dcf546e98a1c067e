"""Repeated, distinct and counted elements: repeat_interleave, unique, bincount."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ordering import clamped_index, search
from aotpack.ir.symbolic.facts import bounds, known_le
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.indexing.counted import Chosen, choose
from aotpack.lower.indexing.scatter import Points, take_in
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position, target_from, where
from aotpack.stages import Ref

_REFUSED = -1  # a size in no range: what eager raises for is refused by the read


@lowering("aten.repeat_interleave.Tensor")
def repeat_interleave(c: Context, repeats: Ref, *, output_size: Int | int | None = None) -> None:
    """The number of each element is found in the running sums of the repeats."""
    (length,) = c.shape(repeats)
    ends = c.temporary("ends", DType.INT64, (length,))
    c.scan((ends,), "sum", 0, lambda index: cast(c.load(repeats, index), DType.INT64))
    if c.node.counts:
        total = _counted(c, repeats, _last(c, ends, length))
        c.count(total, Int.of(c.node.counts[0].high))
    longest = int(min(bounds(length)[1], 2**31))

    def value(index: Index) -> Value:
        def is_before(place: Value) -> Value:
            end = c.load(ends, (clamped_index(place, length),))
            return apply("le", end, position(index[0]))

        found = search(position(0), position(length), longest, is_before)
        return cast(found, c.dtype(c.result()))

    c.pointwise(c.result(), value)


def _last(c: Context, row: Ref, length: Int) -> Value:
    """The last element of a row; 0 if there is none."""
    none = constant(0, DType.INT64)
    if length.constant == 0:
        return none
    is_there = [] if known_le(1, length) else [apply("gt", position(length), 0)]
    return guarded(is_there, c.load(row, (length - 1,)), none)


def _counted(c: Context, given: Ref, count: Value) -> Ref:
    """The count, or one that is refused if a number that is given is negative."""
    least = c.temporary("least", c.dtype(given).compute, ())
    c.reduction((least,), "min", c.shape(given), lambda _, inner: (c.load(given, inner),))
    total = c.temporary("total", DType.INT64, ())
    refused = constant(_REFUSED, DType.INT64)
    c.pointwise(total, lambda index: where(apply("lt", c.load(least, ()), 0), refused, count))
    return total


@lowering("aten.bincount.default")
def bincount(c: Context, self: Ref, weights: Ref | None = None, minlength: int = 0) -> None:
    """Scatter ones, or weights, into as many bins as the largest number asks for."""
    if c.node.counts:
        largest = c.temporary("largest", c.dtype(self).compute, ())
        c.reduction((largest,), "max", c.shape(self), lambda _, inner: (c.load(self, inner),))
        bins = apply("add", cast(c.load(largest, ()), DType.INT64), 1)
        least = constant(minlength, DType.INT64)
        total = _counted(c, self, apply("maximum", bins, least))
        c.count(total, Int.of(c.node.counts[0].high))
    dtype = c.dtype(c.result())
    (size,) = c.shape(c.result())
    start = c.temporary("start", dtype, (size,))
    c.pointwise(start, lambda index: constant(0, dtype))
    points = Points(c.shape(self), lambda point: (target_from(c.load(self, point), size),))

    def value(point: Index) -> Value:
        return constant(1, dtype) if weights is None else cast(c.load(weights, point), dtype)

    take_in(c, c.result(), start, "sum", points, value)


# --- distinct elements --------------------------------------------------------------------------


@lowering("aten._unique2.default")
def unique(
    c: Context,
    self: Ref,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> None:
    """The first of each run of equal elements in the sorted row; always sorted."""
    flat = _flat(c, self)
    values, order = (
        c.temporary(role, dtype, c.shape(flat))
        for role, dtype in (("sorted", c.dtype(self)), ("order", DType.INT64))
    )
    c.sort((values, order), flat, 0, descending=False)
    found = _runs(c, values)
    if not return_inverse:
        c.pointwise(c.result(1), lambda index: constant(0, DType.INT64))
    else:
        (numel,) = c.shape(flat)
        inverse, start = (c.temporary(r, DType.INT64, (numel,)) for r in ("inverse", "zeros"))
        c.pointwise(start, lambda index: constant(0, DType.INT64))

        def place(point: Index) -> Index:
            return (target_from(c.load(order, point), numel),)

        c.scatter(inverse, start, "set", (numel,), place, lambda point: found.number(point[0]))
        shape = c.shape(self)
        c.pointwise(c.result(1), lambda index: c.load(inverse, (flatten_index(index, shape),)))
    _lengths(c, found, wanted=return_counts)


@lowering("aten.unique_consecutive.default")
def unique_consecutive(
    c: Context,
    self: Ref,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> None:
    """The first of each run of equal elements."""
    if dim is not None and c.rank(self) != 1:
        raise CannotLower("distinct slices are not found; distinct elements are (dim=None)")
    found = _runs(c, _flat(c, self))
    shape = c.shape(self)

    def inverse(index: Index) -> Value:
        return found.number(flatten_index(index, shape))

    none = constant(0, DType.INT64)
    c.pointwise(c.result(1), inverse if return_inverse else lambda index: none)
    _lengths(c, found, wanted=return_counts)


def _flat(c: Context, self: Ref) -> Ref:
    """The tensor as one row."""
    shape = c.shape(self)
    if len(shape) == 1:
        return self
    flat = c.temporary("flat", c.dtype(self), (product(shape),))
    c.pointwise(flat, lambda index: c.load(self, unflatten_index(index[0], shape)))
    return flat


def _runs(c: Context, row: Ref) -> Chosen:
    """The first places of runs of equal elements; writes the elements there as the first result."""
    (numel,) = c.shape(row)

    def is_first(place: Int) -> Value:
        differs = apply("ne", c.load(row, (place,)), c.load(row, (place - 1,)))
        return guarded([apply("gt", position(place), 0)], differs, constant(True, DType.BOOL))

    found = choose(c, numel, is_first, c.shape(c.result())[0])
    c.pointwise(c.result(), lambda index: c.load(row, (found.place(index[0]),)))
    return found


def _lengths(c: Context, found: Chosen, *, wanted: bool) -> None:
    """The length of each run, as the third result: up to the next one, or to the end."""
    none = constant(0, DType.INT64)

    def value(index: Index) -> Value:
        has_next = apply("lt", position(index[0] + 1), position(found.size))
        after = position(found.place(index[0] + 1))
        end = guarded([has_next], after, position(found.numel))
        return apply("sub", end, position(found.place(index[0])))

    c.pointwise(c.result(2), value if wanted else lambda index: none)
