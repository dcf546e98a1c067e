"""Values counted in equal bins."""

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Int
from aotpack.ir.nodes import Value
from aotpack.lower.context import Context, Index, Scalar, is_empty
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.scatter import Points, count_hits
from aotpack.lower.values import apply, cast, constant, target_from, where
from aotpack.stages import Ref


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
