"""The parts of floats: exponents and neighbours; and comparisons that ignore NaN."""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.opinfo import TWINS
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.activation import elementwise
from aotpack.lower.elementwise.arithmetic import LARGEST
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Ref

DIGITS = {DType.FLOAT16: 11, DType.BFLOAT16: 8, DType.FLOAT32: 24, DType.FLOAT64: 53}
LEAST_EXPONENT = {
    DType.FLOAT16: -24,
    DType.BFLOAT16: -133,
    DType.FLOAT32: -149,
    DType.FLOAT64: -1074,
}
"""Of the smallest number."""
_EXPONENTS = {DType.FLOAT32: (-126, 127, 23), DType.FLOAT64: (-1022, 1023, 52)}
"""Of the least and the largest normal number; the bits behind the exponent's."""


def _power_of_two(exponent: Value) -> Value:
    """``2**exponent`` in two factors: exact where the result, but not the power, is in range."""
    half = apply("floor", apply("mul", exponent, 0.5))
    return apply("mul", apply("exp2", half), apply("exp2", apply("sub", exponent, half)))


def scaled(x: Value, exponent: Value) -> Value:
    """``x * 2**exponent`` for a whole exponent, rounded once.

    The last of three factors takes as much of the exponent as it can. So where one before it
    overflows, loses digits or becomes 0, the result is infinite or 0.
    """
    low, high, digits = _EXPONENTS[x.dtype]
    parts = []
    for _ in range(3):
        part = apply("maximum", apply("minimum", exponent, float(high)), float(low))
        parts.append(part)
        exponent = apply("sub", exponent, part)
    for part in reversed(parts):
        biased = cast(apply("add", part, float(high)), TWINS[x.dtype])
        x = apply("mul", x, apply("bits", apply("shift_left", biased, digits)))
    return x


def exponent_of(size: Value) -> Value:
    """e with ``size = m * 2**e``, m in [1/2, 1), as a float; for positive finite numbers."""
    lift = 2.0**64
    tiny = apply("lt", size, 2.0**-100)
    lifted = where(tiny, apply("mul", size, lift), size)
    guess = apply("floor", apply("log2", lifted))
    # the logarithm of a number near a power of two may round across it
    above = apply("gt", _power_of_two(guess), lifted)
    guess = where(above, apply("sub", guess, 1.0), guess)
    below = apply("le", _power_of_two(apply("add", guess, 1.0)), lifted)
    guess = where(below, apply("add", guess, 1.0), guess)
    found = apply("add", guess, 1.0)
    return where(tiny, apply("sub", found, 64.0), found)


@lowering("aten.frexp.Tensor")
def frexp(c: Context, self: Ref) -> None:
    """Mantissa in [1/2, 1) and exponent; 0, infinities and NaN are their own mantissas."""

    def parts(index: Index) -> tuple[Value, Value]:
        x = c.load(self, index)
        size = apply("abs", x)
        plain = apply("logical_and", apply("gt", size, 0), apply("lt", size, math.inf))
        exponent = where(plain, exponent_of(where(plain, size, 1.0)), constant(0, x.dtype))
        return scaled(x, apply("neg", exponent)), exponent

    c.pointwise(c.result(0), lambda index: parts(index)[0])
    c.pointwise(c.result(1), lambda index: cast(parts(index)[1], DType.INT32))


@lowering("aten.ldexp.Tensor")
def ldexp(c: Context, self: Ref, other: Ref) -> None:
    """Exact for a float and integers; else the product with the power, as in torch."""
    common, exponents = result_dtype(c), c.dtype(other)
    is_exact = c.dtype(self).is_float and exponents.facts.kind in ("int", "uint")

    def value(index: Index) -> Value:
        x, exponent = c.operand(self, index, common), c.operand(other, index, common)
        if is_exact:
            return scaled(x, exponent)
        return apply("mul", x, apply("pow", constant(2.0, common), exponent))

    c.pointwise(c.result(), value)


@lowering("aten.nextafter.default")
def nextafter(c: Context, self: Ref, other: Ref) -> None:
    """The neighbour in the type towards the other number."""
    dtype = result_dtype(c)
    smallest, largest = math.ldexp(1.0, LEAST_EXPONENT[dtype]), LARGEST[str(dtype)]

    def value(index: Index) -> Value:
        x, y = c.operand(self, index, dtype), c.operand(other, index, dtype)
        up = apply("gt", y, x)
        step = _last_place(x, up, dtype)
        moved = where(up, apply("add", x, step), apply("sub", x, step))
        bounded = where(apply("lt", x, 0), constant(-largest, x.dtype), constant(largest, x.dtype))
        moved = where(apply("isinf", x), bounded, moved)
        start = where(up, constant(smallest, x.dtype), constant(-smallest, x.dtype))
        moved = where(apply("eq", x, 0), start, moved)
        moved = where(apply("eq", x, y), y, moved)
        moved = where(apply("isnan", y), y, moved)
        return where(apply("isnan", x), x, moved)

    c.pointwise(c.result(), value)


def _last_place(x: Value, up: Value, dtype: DType) -> Value:
    """The distance to the next number; powers of two have a nearer one towards zero."""
    size = apply("abs", x)
    finite = apply("logical_and", apply("gt", size, 0), apply("lt", size, math.inf))
    safe = where(finite, size, 1.0)
    exponent = exponent_of(safe)
    inwards = apply("logical_xor", up, apply("gt", x, 0))
    power = apply("eq", scaled(safe, apply("neg", apply("sub", exponent, 1.0))), 1.0)
    shorter = cast(apply("logical_and", inwards, power), x.dtype)
    place = apply("sub", apply("sub", exponent, float(DIGITS[dtype])), shorter)
    place = apply("maximum", place, float(LEAST_EXPONENT[dtype]))
    return scaled(constant(1, x.dtype), place)


@elementwise("aten.fmax.default", operands=2)
def fmax(x: Value, y: Value) -> Value:
    return _present(x, y, "maximum")


@elementwise("aten.fmin.default", operands=2)
def fmin(x: Value, y: Value) -> Value:
    return _present(x, y, "minimum")


def _present(x: Value, y: Value, op: str) -> Value:
    """The extremum, or the other operand if one is NaN."""
    if not x.dtype.is_float:
        return apply(op, x, y)
    found = where(apply("isnan", y), x, apply(op, x, y))
    return where(apply("isnan", x), y, found)


@lowering("aten.angle.default")
def angle(c: Context, self: Ref) -> None:
    """pi for negative numbers, 0 for others; NaN stays."""
    common = result_dtype(c)

    def value(index: Index) -> Value:
        x = c.operand(self, index, common)
        turned = where(apply("lt", x, 0), constant(math.pi, x.dtype), constant(0, x.dtype))
        return where(apply("isnan", x), x, turned)

    c.pointwise(c.result(), value)
