"""Arithmetic of complex numbers, stored as pairs of reals in the last dimension.

Quotients are scaled by the larger part of the divisor (Smith, 1962), so that squares neither
overflow nor underflow, and both numbers by powers of 2 (Baudin and Smith, 2012), so that neither do
sums and ratios. Zero as divisor divides both parts by itself, as in eager.
"""

import math
from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, position, where
from aotpack.stages import Ref

Pair = tuple[Value, Value]
Operator = Callable[..., Pair]


def parts_of(c: Context, ref: Ref, index: Index) -> Pair:
    """Both parts of a broadcast pair."""
    real, imaginary = (c.broadcast(ref, (*index, Int.of(part))) for part in (0, 1))
    return real, imaginary


def _pairwise(function: Operator) -> Callable[..., None]:
    """A lowering from a function of parts."""

    def handler(c: Context, *refs: Ref) -> None:
        def value(index: Index) -> Value:
            parts = (part for ref in refs for part in parts_of(c, ref, index[:-1]))
            return part_of(index, function(*parts))

        c.pointwise(c.result(), value)

    return handler


def part_of(index: Index, pair: Pair) -> Value:
    """The part of a pair that the last index selects."""
    return where(apply("eq", position(index[-1]), 0), *pair)


def _add(a: Value, b: Value, c: Value, d: Value) -> Pair:
    return apply("add", a, c), apply("add", b, d)


def _sub(a: Value, b: Value, c: Value, d: Value) -> Pair:
    return apply("sub", a, c), apply("sub", b, d)


def _mul(a: Value, b: Value, c: Value, d: Value) -> Pair:
    real = apply("sub", apply("mul", a, c), apply("mul", b, d))
    return real, apply("add", apply("mul", a, d), apply("mul", b, c))


_STEPS = {DType.FLOAT32: 64, DType.FLOAT64: 512}
"""The power of 2 by which operands of a quotient are scaled that are further from 1 than it."""


def _scale(a: Value, b: Value) -> tuple[Value, Value]:
    """A scale of a number's parts, and its reciprocal."""
    large = apply("maximum", apply("abs", a), apply("abs", b))
    high, low = (2.0 ** (sign * _STEPS[large.dtype]) for sign in (1, -1))
    is_high, is_low = apply("gt", large, high), apply("lt", large, low)
    once, up, down = (constant(number, large.dtype) for number in (1, high, low))
    return where(is_high, down, where(is_low, up, once)), where(
        is_high, up, where(is_low, down, once)
    )


def _div(a: Value, b: Value, c: Value, d: Value) -> Pair:
    is_zero = apply("logical_and", apply("eq", c, 0.0), apply("eq", d, 0.0))
    ends = apply("div", a, apply("abs", c)), apply("div", b, apply("abs", d))
    (up, back), (down, _) = _scale(a, b), _scale(c, d)
    quotients = _smith(
        *(apply("mul", x, up) for x in (a, b)), *(apply("mul", x, down) for x in (c, d))
    )
    found = (apply("mul", apply("mul", x, down), back) for x in quotients)
    real, imaginary = (where(is_zero, *pair) for pair in zip(ends, found, strict=True))
    return real, imaginary


def _smith(a: Value, b: Value, c: Value, d: Value) -> Pair:
    flat = apply("ge", apply("abs", c), apply("abs", d))
    large, small = where(flat, c, d), where(flat, d, c)
    ratio = apply("div", small, large)
    divisor = apply("add", large, apply("mul", small, ratio))
    near, far = where(flat, a, b), where(flat, b, a)
    first = apply("add", near, apply("mul", far, ratio))
    turned = apply("sub", far, apply("mul", near, ratio))
    other = where(flat, turned, apply("neg", turned))
    return apply("div", first, divisor), apply("div", other, divisor)


def _neg(a: Value, b: Value) -> Pair:
    return apply("neg", a), apply("neg", b)


def _conj(a: Value, b: Value) -> Pair:
    return a, apply("neg", b)


_FUNCTIONS: dict[str, Operator] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "conj": _conj,
}
for _name, _function in _FUNCTIONS.items():
    lowering(f"pair.{_name}")(_pairwise(_function))


@lowering("pair.of_real")
def of_real(c: Context, real: Ref | Scalar) -> None:
    """A real tensor or number as a pair."""
    wide = result_dtype(c)
    none = constant(0, wide)
    c.pointwise(c.result(), lambda index: part_of(index, (c.operand(real, index[:-1], wide), none)))


@lowering("pair.convert")
def convert(c: Context, self: Ref) -> None:
    c.pointwise(c.result(), lambda index: cast(c.load(self, index), result_dtype(c)))


@lowering("pair.real")
def real_part(c: Context, self: Ref) -> None:
    """A conversion to real numbers drops the imaginary parts."""
    c.pointwise(c.result(), lambda index: cast(parts_of(c, self, index)[0], result_dtype(c)))


@lowering("pair.complex")
def complex_of(c: Context, real: Ref, imag: Ref) -> None:
    wide = result_dtype(c)

    def value(index: Index) -> Value:
        first, second = (c.operand(x, index[:-1], wide) for x in (real, imag))
        return part_of(index, (first, second))

    c.pointwise(c.result(), value)


@lowering("pair.polar")
def polar(c: Context, abs: Ref, angle: Ref) -> None:
    wide = result_dtype(c)

    def value(index: Index) -> Value:
        size, phase = (c.operand(x, index[:-1], wide) for x in (abs, angle))
        real, imaginary = (apply("mul", size, apply(name, phase)) for name in ("cos", "sin"))
        return part_of(index, (real, imaginary))

    c.pointwise(c.result(), value)


@lowering("pair.abs")
def absolute(c: Context, self: Ref) -> None:
    """``sqrt(a * a + b * b)``, of parts over the larger one; infinite where a part is."""

    def value(index: Index) -> Value:
        a, b = (apply("abs", part) for part in parts_of(c, self, index))
        large, small = apply("maximum", a, b), apply("minimum", a, b)
        ratio = apply("div", small, large)
        size = apply("mul", large, apply("sqrt", apply("add", apply("square", ratio), 1.0)))
        endless = apply("logical_or", apply("isinf", a), apply("isinf", b))
        size = where(apply("eq", small, 0.0), large, size)
        return where(endless, constant(math.inf, size.dtype), size)

    c.pointwise(c.result(), value)


@lowering("pair.angle")
def angle(c: Context, self: Ref) -> None:
    def value(index: Index) -> Value:
        a, b = parts_of(c, self, index)
        return apply("atan2", b, a)

    c.pointwise(c.result(), value)
