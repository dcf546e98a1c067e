"""Histograms: bins of equal width, or between given edges."""

from aotpack.ir.dtypes import DType
from aotpack.ir.ordering import clamped_index, search
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, is_empty
from aotpack.lower.elementwise.create import between
from aotpack.lower.indexing.scatter import Points, count_hits, take_in
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, position, target_from, where
from aotpack.stages import Ref


@lowering("aten.histc.default")
def histc(c: Context, self: Ref, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> None:
    """Equal bins over [min, max], or over the range of the elements if min equals max."""
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
    first, last = _extremes(c, self)
    is_one = apply("eq", first, last)
    return where(is_one, apply("sub", first, 1), first), where(is_one, apply("add", last, 1), last)


def _extremes(c: Context, self: Ref) -> list[Value]:
    """The smallest and the largest element."""
    extremes = []
    for kind in ("min", "max"):
        extreme = c.temporary(kind, c.dtype(self).compute, ())
        c.reduction((extreme,), kind, c.shape(self), lambda _, inner: (c.load(self, inner),))
        extremes.append(c.load(extreme, ()))
    return extremes


# --- bins with edges ----------------------------------------------------------------------------


@lowering("aten.histogram.bin_ct")
def histogram(
    c: Context,
    self: Ref,
    bins: int = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Ref | None = None,
    density: bool = False,
) -> None:
    """Equal bins over ``range``, else over that of the elements; one point is widened by 1/2.

    Without elements the range is [0, 1].
    """
    dtype = c.dtype(self).compute
    given = range or ((0.0, 1.0) if is_empty(c.shape(self)) else None)
    low, high = map(constant, given, (dtype, dtype)) if given else _extremes(c, self)
    is_one = apply("eq", low, high)
    first = where(is_one, apply("sub", low, 0.5), low)
    last = where(is_one, apply("add", high, 0.5), high)
    edges, count = c.result(1), Int.of(bins + 1)
    c.pointwise(edges, lambda index: between(first, last, index[0], count, dtype))
    _count_between(c, self, weight, density=density)


@lowering("aten.histogram.bins_tensor")
def histogram_of_edges(
    c: Context, self: Ref, bins: Ref, *, weight: Ref | None = None, density: bool = False
) -> None:
    """Bins between sorted edges."""
    c.pointwise(c.result(1), lambda index: c.load(bins, index))
    _count_between(c, self, weight, density=density)


def _count_between(c: Context, self: Ref, weight: Ref | None, *, density: bool) -> None:
    """Bins include their lower edge, the last one both; elements outside and NaN are ignored.

    Densities are fractions of the total weight, divided by the widths of the bins.
    """
    counts, edges = c.result(0), c.result(1)
    dtype = c.dtype(self).compute
    bins = c.shape(counts)[0]

    def place(point: Index) -> Index:
        x = c.load(self, point)

        def is_counted(entry: Value) -> Value:
            return apply("le", c.load(edges, (clamped_index(entry, bins + 1),)), x)

        longest = int(min(bounds(bins + 1)[1], 2**31))
        behind = search(position(0), position(bins + 1), longest, is_counted)
        number = apply("minimum", apply("sub", behind, 1), position(bins - 1))
        first, last = c.load(edges, (Int.of(0),)), c.load(edges, (bins,))
        inside = apply("logical_and", apply("ge", x, first), apply("le", x, last))
        return (target_from(where(inside, number, position(bins)), bins),)

    def share(point: Index) -> Value:
        return constant(1, dtype) if weight is None else c.load(weight, point)

    start = c.temporary("start", dtype, (bins,))
    c.pointwise(start, lambda index: constant(0, dtype))
    found = c.temporary("found", dtype, (bins,))
    take_in(c, found, start, "sum", Points(c.shape(self), place), share)
    if not density:
        c.pointwise(counts, lambda index: c.load(found, index))
        return
    total = c.temporary("all", dtype, ())
    c.reduction((total,), "sum", (bins,), lambda _, inner: (c.load(found, inner),))

    def value(index: Index) -> Value:
        width = apply("sub", c.load(edges, (index[0] + 1,)), c.load(edges, index))
        return apply("div", apply("div", c.load(found, index), c.load(total, ())), width)

    c.pointwise(counts, value)
