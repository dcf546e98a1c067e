"""Elementwise formulas of several operands, with torch's results for special values."""

import math

from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.activation import elementwise
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, constant, where
from aotpack.stages import Ref

LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@elementwise("aten.lerp.Scalar", "aten.lerp.Tensor", operands=3)
def lerp(x: Value, end: Value, weight: Value) -> Value:
    """Interpolates from the nearer end, as torch does, so that both ends are exact."""
    span = apply("sub", end, x)
    from_start = apply("add", x, apply("mul", weight, span))
    back = apply("mul", span, apply("sub", constant(1, x.dtype), weight))
    near_start = apply("lt", apply("abs", weight), 0.5)
    return where(near_start, from_start, apply("sub", end, back))


@elementwise("aten.addcmul.default", operands=3)
def addcmul(x: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    return apply("add", x, apply("mul", apply("mul", tensor1, tensor2), value))


@elementwise("aten.addcdiv.default", operands=3)
def addcdiv(x: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    return apply("add", x, apply("mul", apply("div", tensor1, tensor2), value))


@elementwise(
    "aten.xlogy.Tensor",
    "aten.xlogy.Scalar_Self",
    "aten.xlogy.Scalar_Other",
    "aten.special_xlogy.default",
    operands=2,
)
def xlogy(x: Value, y: Value) -> Value:
    return _zero_times(x, y, apply("log", y))


@elementwise("aten.special_xlog1py.default", operands=2)
def xlog1py(x: Value, y: Value) -> Value:
    return _zero_times(x, y, apply("log1p", y))


def _zero_times(x: Value, y: Value, factor: Value) -> Value:
    """``x * factor``, but 0 where x is 0 and y is not NaN."""
    product = where(apply("eq", x, 0), constant(0, x.dtype), apply("mul", x, factor))
    return where(apply("isnan", y), y, product)


@elementwise("aten.hypot.default", operands=2)
def hypot(x: Value, y: Value) -> Value:
    """Scaled by the larger one, so that the squares do not overflow; infinite beside NaN too."""
    a, b = apply("abs", x), apply("abs", y)
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    ratio = apply("div", small, large)
    length = apply("mul", large, apply("sqrt", apply("add", apply("square", ratio), 1.0)))
    length = where(apply("eq", large, 0), large, length)
    infinite = apply("logical_or", apply("isinf", a), apply("isinf", b))
    return where(infinite, constant(math.inf, x.dtype), length)


@elementwise("aten.logaddexp.default", operands=2)
def logaddexp(x: Value, y: Value) -> Value:
    return _log_sum(x, y, "exp", 1.0)


@elementwise("aten.logaddexp2.default", operands=2)
def logaddexp2(x: Value, y: Value) -> Value:
    return _log_sum(x, y, "exp2", 1 / math.log(2))


def _log_sum(x: Value, y: Value, power: str, scale: float) -> Value:
    large = apply("maximum", x, y)
    distance = apply("neg", apply("abs", apply("sub", x, y)))
    tail = apply("mul", apply("log1p", apply(power, distance)), scale)
    both_infinite = apply("logical_and", apply("isinf", x), apply("eq", x, y))
    return where(both_infinite, x, apply("add", large, tail))


@elementwise("aten.copysign.Tensor", "aten.copysign.Scalar", operands=2)
def copysign(x: Value, sign: Value) -> Value:
    size = apply("abs", x)
    return where(apply("signbit", sign), apply("neg", size), size)


@elementwise("aten.heaviside.default", operands=2)
def heaviside(x: Value, values: Value) -> Value:
    step = where(apply("lt", x, 0), constant(0, x.dtype), constant(1, x.dtype))
    chosen = where(apply("eq", x, 0), values, step)
    return where(apply("isnan", x), constant(0, x.dtype), chosen) if x.dtype.is_float else chosen


@lowering("aten.nan_to_num.default")
def nan_to_num(
    c: Context,
    self: Ref,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> None:
    """Without given replacements, infinities become the largest number of the tensor's type."""
    largest = LARGEST[str(c.dtype(self))] if c.dtype(self).is_float else 0.0
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf

    def value(index: Index) -> Value:
        x = c.load(self, index)
        if not x.dtype.is_float:
            return x
        finite = where(apply("eq", x, math.inf), constant(high, x.dtype), x)
        finite = where(apply("eq", x, -math.inf), constant(low, x.dtype), finite)
        return where(apply("isnan", x), constant(nan or 0.0, x.dtype), finite)

    c.pointwise(c.result(), value)


EUCLID_STEPS = {8: 12, 16: 23, 32: 46, 64: 92}
"""How many divisions the numbers of a width can take: neighbours of Fibonacci's take the most."""


@elementwise("aten.gcd.default", operands=2)
def gcd(x: Value, y: Value) -> Value:
    """Euclid's algorithm with a fixed number of steps, the maximum; x mod 0 counts as 0."""
    a, b = apply("abs", x), apply("abs", y)
    for _ in range(EUCLID_STEPS[x.dtype.facts.bits]):
        a, b = where(apply("ne", b, 0), b, a), apply("fmod", a, b)
    return a


@elementwise("aten.lcm.default", operands=2)
def lcm(x: Value, y: Value) -> Value:
    """Eager takes the absolute value of the product in at least 32 bits."""
    quotient = apply("truncdiv", x, gcd(x, y))
    if x.dtype.itemsize < 4:
        return apply("mul", apply("abs", quotient), apply("abs", y))
    return apply("abs", apply("mul", quotient, y))


@elementwise("aten.frac.default")
def frac(x: Value) -> Value:
    return apply("sub", x, apply("trunc", x))


@elementwise("aten.sinc.default", "aten.special_sinc.default")
def sinc(x: Value) -> Value:
    angle = apply("mul", x, math.pi)
    ratio = apply("div", apply("sin", angle), angle)
    return where(apply("eq", x, 0), constant(1, x.dtype), ratio)


@elementwise("aten.deg2rad.default")
def deg2rad(x: Value) -> Value:
    return apply("mul", x, math.pi / 180)


@elementwise("aten.rad2deg.default")
def rad2deg(x: Value) -> Value:
    return apply("mul", x, 180 / math.pi)
