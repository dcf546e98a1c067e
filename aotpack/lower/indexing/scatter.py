"""Writes at indices that are data: scatter, index_add, index_copy, put.

Accumulators are wide: 16-bit floats accumulate in float32, so that a sum is rounded once; narrow
integers and bool in int32, as atomics require.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.symbolic.integers import product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, Shape
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import reshape_index, unflatten_index
from aotpack.lower.values import apply, cast, constant, target_from, where
from aotpack.lower.views.view import replaced
from aotpack.stages import Ref

KINDS = {
    "add": "sum",
    "sum": "sum",
    "mean": "sum",
    "multiply": "prod",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
}
_OF_BOOL = {"sum": "max", "prod": "min"}


@dataclass(frozen=True, slots=True)
class Points:
    """Where a scatter writes: ``place`` is a function of the points of a shape."""

    over: Shape
    place: Callable[[Index], Index]


def accumulator(dtype: DType) -> DType:
    """The type in which elements of ``dtype`` are combined."""
    return dtype.compute if dtype.is_float or dtype.itemsize >= 4 else DType.INT32


def take_in(
    c: Context,
    target: Ref,
    base: Ref,
    kind: str,
    points: Points,
    value: Callable[[Index], Value],
) -> None:
    """Write ``target`` as ``base`` with values scattered in, rounded to its type at the end."""
    dtype = c.dtype(target)
    wide = accumulator(dtype)
    if kind == "set" or wide is dtype:
        c.scatter(target, base, kind, points.over, points.place, value)
        return
    kind = _OF_BOOL.get(kind, kind) if dtype is DType.BOOL else kind
    start = c.temporary("start", wide, c.shape(target))
    c.pointwise(start, lambda index: c.load(base, index))
    total = c.temporary("total", wide, c.shape(target))
    c.scatter(total, start, kind, points.over, points.place, value)
    c.pointwise(target, lambda index: c.load(total, index))


def reduce_in(
    c: Context,
    self: Ref,
    points: Points,
    value: Callable[[Index], Value],
    reduce: str,
    include_self: bool = True,
) -> None:
    """Write the result as ``self`` with values combined, including its elements or not."""
    if reduce not in KINDS:
        raise CannotLower(f"the reduction {reduce!r} is none of {', '.join(KINDS)}")
    kind, base = KINDS[reduce], self
    if reduce == "mean":
        _mean_in(c, self, points, value, include_self)
        return
    if not include_self:
        base = _cleared(c, self, count_hits(c, points, c.shape(self)), kind)
    take_in(c, c.result(), base, kind, points, value)


def _mean_in(
    c: Context, self: Ref, points: Points, value: Callable[[Index], Value], include_self: bool
) -> None:
    """The sum divided by the count, at least 1; integer quotients are rounded down."""
    count = count_hits(c, points, c.shape(self), int(include_self))
    base = self if include_self else _cleared(c, self, count, "sum")
    dtype = c.dtype(self)
    wide = dtype.compute
    total = c.temporary("sum", wide, c.shape(self))
    take_in(c, total, _widened(c, base, wide), "sum", points, value)

    def quotient(index: Index) -> Value:
        number = apply("maximum", cast(c.load(count, index), wide), 1)
        return apply("div" if wide.is_float else "floordiv", c.load(total, index), number)

    c.pointwise(c.result(), quotient)


def _widened(c: Context, base: Ref, dtype: DType) -> Ref:
    if c.dtype(base) is dtype:
        return base
    wide = c.temporary("wide", dtype, c.shape(base))
    c.pointwise(wide, lambda index: c.load(base, index))
    return wide


def count_hits(c: Context, points: Points, shape: Shape, start: int = 0) -> Ref:
    """``start`` plus the number of points that hit each element of a shape."""
    none = c.temporary("none", DType.INT32, shape)
    c.pointwise(none, lambda index: constant(start, DType.INT32))
    count = c.temporary("count", DType.INT32, shape)
    one = constant(1, DType.INT32)
    c.scatter(count, none, "sum", points.over, points.place, lambda index: one)
    return count


def _cleared(c: Context, self: Ref, count: Ref, kind: str) -> Ref:
    """``self`` with the identity at elements that a point hits."""
    dtype = c.dtype(self).compute
    if dtype is DType.BOOL:
        kind = {"sum": "any", "max": "any"}.get(kind, "all")
    (identity,) = MONOIDS[kind].identities(dtype)
    cleared = c.temporary("cleared", dtype, c.shape(self))

    def value(index: Index) -> Value:
        is_hit = apply("gt", c.load(count, index), 0)
        return where(is_hit, constant(identity, dtype), c.load(self, index))

    c.pointwise(cleared, value)
    return cleared


# --- one position for each element --------------------------------------------------------------


def along_index(c: Context, self: Ref, dim: int, index: Ref) -> Points:
    """Each element of ``index`` is the target index along one dimension."""
    along = c.dim(self, dim)

    def place(point: Index) -> Index:
        if not c.rank(self):
            return ()
        entry = target_from(c.load(index, point), c.shape(self)[along])
        return replaced(point, along, entry)

    return Points(c.shape(index), place)


@lowering("aten.scatter.src", "aten.scatter.value")
def scatter(c: Context, self: Ref, dim: int, index: Ref, src: Ref | Scalar) -> None:
    take_in(c, c.result(), self, "set", along_index(c, self, dim, index), _of(c, src))


@lowering("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_with(
    c: Context, self: Ref, dim: int, index: Ref, src: Ref | Scalar, *, reduce: str
) -> None:
    reduce_in(c, self, along_index(c, self, dim, index), _of(c, src), reduce)


@lowering("aten.scatter_add.default")
def scatter_add(c: Context, self: Ref, dim: int, index: Ref, src: Ref) -> None:
    reduce_in(c, self, along_index(c, self, dim, index), _of(c, src), "sum")


@lowering("aten.scatter_reduce.two")
def scatter_reduce(
    c: Context,
    self: Ref,
    dim: int,
    index: Ref,
    src: Ref,
    reduce: str,
    *,
    include_self: bool = True,
) -> None:
    points = along_index(c, self, dim, index)
    reduce_in(c, self, points, _of(c, src), reduce, include_self)


def _of(c: Context, source: Ref | Scalar) -> Callable[[Index], Value]:
    """The element of a tensor at a point, or a number."""
    if isinstance(source, Ref):
        return lambda index: c.load(source, index)
    return lambda index: constant(source, c.dtype(c.result()))


@lowering("aten.put.default")
def put(c: Context, self: Ref, index: Ref, source: Ref, accumulate: bool = False) -> None:
    """Positions count the elements of the whole tensor."""
    shape = c.shape(self)

    def at(point: Index) -> Index:
        place = target_from(c.load(index, point), product(shape), from_end=True)
        return unflatten_index(place, shape)

    points = Points(c.shape(index), at)
    take_in(
        c, c.result(), self, "sum" if accumulate else "set", points, _reshaped(c, source, points)
    )


def _reshaped(c: Context, source: Ref, points: Points) -> Callable[[Index], Value]:
    """The element of a tensor at a point of another shape, in row-major order."""
    return lambda index: c.load(source, reshape_index(index, points.over, c.shape(source)))


# --- one position for each row ------------------------------------------------------------------


def along_rows(c: Context, self: Ref, dim: int, index: Ref, *, from_end: bool = False) -> Points:
    """Each element of ``index`` is the target index of a slice along a dimension."""
    along = c.dim(self, dim)
    count = product(c.shape(index))
    if not c.rank(self):
        return Points((count,), lambda point: ())

    def at(point: Index) -> Index:
        entry = c.load(index, (point[along],)[: c.rank(index)])
        place = target_from(entry, c.shape(self)[along], from_end=from_end)
        return replaced(point, along, place)

    return Points(replaced(c.shape(self), along, count), at)


def _rows_of(c: Context, source: Ref) -> Callable[[Index], Value]:
    return lambda point: c.load(source, point[: c.rank(source)])


@lowering("aten.index_add.default")
def index_add(
    c: Context, self: Ref, dim: int, index: Ref, source: Ref, *, alpha: Scalar = 1
) -> None:
    dtype = accumulator(c.dtype(self))

    def value(point: Index) -> Value:
        row = _rows_of(c, source)(point)
        return row if alpha == 1 else apply("mul", cast(row, dtype), constant(alpha, dtype))

    reduce_in(c, self, along_rows(c, self, dim, index), value, "sum")


@lowering("aten.index_copy.default")
def index_copy(c: Context, self: Ref, dim: int, index: Ref, source: Ref) -> None:
    points = along_rows(c, self, dim, index)
    take_in(c, c.result(), self, "set", points, _rows_of(c, source))


@lowering("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(c: Context, self: Ref, dim: int, index: Ref, value: Ref | Scalar) -> None:
    points = along_rows(c, self, dim, index, from_end=True)
    dtype = c.dtype(self)
    take_in(c, c.result(), self, "set", points, lambda point: c.operand(value, (), dtype))


@lowering("aten.index_reduce.default")
def index_reduce(
    c: Context,
    self: Ref,
    dim: int,
    index: Ref,
    source: Ref,
    reduce: str,
    *,
    include_self: bool = True,
) -> None:
    points = along_rows(c, self, dim, index)
    reduce_in(c, self, points, _rows_of(c, source), reduce, include_self)
