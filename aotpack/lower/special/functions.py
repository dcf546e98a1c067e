"""Special functions: formulas over the elementwise operators, with series fitted to float64.

A series is truncated at the precision of the compute type. Sources: Abramowitz and Stegun chapters
6 to 10 (recurrences, reflections, asymptotic forms); tools/fit_series.py fits the series.
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.elementwise.activation import elementwise
from aotpack.lower.special.series import (
    AIRY_MIDDLE,
    AIRY_P,
    AIRY_Q,
    AIRY_TAIL,
    ERFCX,
    ERFINV_FAR,
    ERFINV_MIDDLE,
    ERFINV_NEAR,
    Series,
)
from aotpack.lower.values import apply, constant, where

NAN, INF = float("nan"), float("inf")
EPSILON = {DType.FLOAT32: 2.0**-26, DType.FLOAT64: 2.0**-56}


def evaluated(series: Series, t: Value) -> Value:
    """The series at a point, clamped to its interval, by Clenshaw's recurrence.

    (T_0 + T_1 + ... with c_k: b_k = c_k + 2 y b_(k+1) - b_(k+2), the sum is c_0 + y b_1 - b_2.)
    """
    (low, high), coefficients = series
    kept = _kept(coefficients, t.dtype)
    inside = apply("minimum", apply("maximum", t, low), high)
    y = apply("div", apply("sub", inside, (low + high) / 2), (high - low) / 2)
    double = apply("add", y, y)
    last: Value = constant(kept[-1], t.dtype)
    before: Value = constant(0, t.dtype)
    for coefficient in reversed(kept[1:-1]):
        following = apply("sub", apply("add", apply("mul", double, last), coefficient), before)
        before, last = last, following
    return apply("add", apply("sub", apply("mul", y, last), before), kept[0])


def _kept(coefficients: tuple[float, ...], dtype: DType) -> tuple[float, ...]:
    """The coefficients that reach the type's last place."""
    least = max(map(abs, coefficients)) * EPSILON[dtype]
    count = max(k for k, c in enumerate(coefficients) if abs(c) >= least or k == 1) + 1
    return coefficients[:count]


# --- error functions ----------------------------------------------------------------------------


@elementwise("aten.erfinv.default", "aten.special_erfinv.default")
def erfinv(x: Value) -> Value:
    """``x`` times a function of -log((1 - x) (1 + x)), which is exact near both ends."""
    one = constant(1, x.dtype)
    gap = apply("mul", apply("sub", one, x), apply("add", one, x))
    finite = apply("mul", x, _erfinv_ratio(apply("neg", apply("log", gap))))
    size = apply("abs", x)
    infinite = where(apply("lt", x, 0), constant(-INF, x.dtype), constant(INF, x.dtype))
    outside = where(apply("eq", size, 1), infinite, constant(NAN, x.dtype))
    return where(apply("lt", size, 1), finite, outside)


def _erfinv_ratio(w: Value) -> Value:
    root = apply("sqrt", apply("maximum", w, 0))
    far = where(apply("lt", root, 4), evaluated(ERFINV_MIDDLE, root), evaluated(ERFINV_FAR, root))
    return where(apply("lt", w, 6.25), evaluated(ERFINV_NEAR, w), far)


@elementwise("aten.special_ndtri.default")
def ndtri(p: Value) -> Value:
    """``sqrt(2) erfinv(2 p - 1)``, without that difference in the small tail, where it cancels."""
    rest = apply("sub", constant(1, p.dtype), p)
    w = apply("neg", apply("log", apply("mul", apply("mul", p, 4), rest)))
    middle = apply("mul", apply("sub", p, 0.5), 2 * math.sqrt(2))
    finite = apply("mul", middle, _erfinv_ratio(w))
    low = where(apply("eq", p, 0), constant(-INF, p.dtype), constant(NAN, p.dtype))
    ends = where(apply("eq", p, 1), constant(INF, p.dtype), low)
    inside = apply("logical_and", apply("gt", p, 0), apply("lt", p, 1))
    return where(inside, finite, ends)


@elementwise("aten.special_erfcx.default")
def erfcx(x: Value) -> Value:
    """``exp(x * x) erfc(x)``; of negative numbers by the reflection 2 exp(x * x) - erfcx(-x)."""
    size = apply("abs", x)
    t = apply(
        "sub", constant(1, x.dtype), apply("div", constant(8, x.dtype), apply("add", size, 4))
    )
    scale = apply("add", apply("add", size, size), 1)
    above = apply("div", evaluated(ERFCX, t), scale)
    below = apply("sub", apply("mul", exp_of_square(x), 2), above)
    found = where(apply("lt", x, 0), below, above)
    return where(apply("isnan", x), x, found)


def exp_of_square(x: Value) -> Value:
    """``exp(x * x)`` with the square in two parts, as exp magnifies its rounding error."""
    coarse = apply("div", apply("round", apply("mul", x, 64)), 64)
    high = apply("exp", apply("square", coarse))
    rest = apply("mul", apply("sub", x, coarse), apply("add", x, coarse))
    exact = apply("mul", high, apply("exp", rest))
    return where(apply("isinf", high), high, exact)


@elementwise("aten.special_log_ndtr.default")
def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution function; by erfcx where it is small."""
    scaled = apply("mul", x, math.sqrt(0.5))
    tail = apply("log", apply("mul", erfcx(apply("neg", scaled)), 0.5))
    below = apply("sub", tail, apply("square", scaled))
    share = apply("mul", apply("erfc", scaled), -0.5)
    return where(apply("lt", x, -1), below, apply("log1p", share))


@elementwise("aten.special_ndtr.default")
def ndtr(x: Value) -> Value:
    scaled = apply("mul", x, -math.sqrt(0.5))
    return apply("mul", apply("erfc", scaled), 0.5)


@elementwise("aten.special_entr.default")
def entr(x: Value) -> Value:
    """``-x log(x)``, 0 at 0 and -inf below."""
    inside = apply("neg", apply("mul", x, apply("log", x)))
    ends = where(apply("eq", x, 0), constant(0, x.dtype), constant(-INF, x.dtype))
    found = where(apply("gt", x, 0), inside, ends)
    return where(apply("isnan", x), x, found)


# --- Airy's function ----------------------------------------------------------------------------


@elementwise("aten.special_airy_ai.default")
def airy_ai(x: Value) -> Value:
    """A decaying tail above 3, a series between -3 and 3, a decaying oscillation below."""
    size = apply("maximum", apply("abs", x), 2.5)
    root = apply("sqrt", size)
    zeta = apply("mul", apply("mul", size, root), 2 / 3)
    inverse = apply("reciprocal", zeta)
    quarter = apply("sqrt", root)
    decay = apply("mul", evaluated(AIRY_TAIL, inverse), apply("exp", apply("neg", zeta)))
    tail = apply("div", decay, apply("mul", quarter, 2 * math.sqrt(math.pi)))
    square = apply("square", inverse)
    phase = apply("add", zeta, math.pi / 4)
    even = apply("mul", evaluated(AIRY_P, square), apply("sin", phase))
    odd = apply("mul", apply("mul", evaluated(AIRY_Q, square), inverse), apply("cos", phase))
    wave = apply("div", apply("sub", even, odd), apply("mul", quarter, math.sqrt(math.pi)))
    found = where(apply("lt", x, -3), wave, evaluated(AIRY_MIDDLE, x))
    found = where(apply("gt", x, 3), tail, found)
    plain = apply("logical_or", apply("isnan", x), apply("isinf", x))
    return where(plain, constant(NAN, x.dtype), found)
