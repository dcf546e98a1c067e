"""Special functions: formulas over the elementwise operators, with series fitted to float64.

A series is cut where the compute type holds no more. Sources: Abramowitz and Stegun chapters 6 to
10 (recurrences, reflections, asymptotic forms); the series are those of tools/fit_series.py.
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.nodes import Value
from aotpack.lower.activation import elementwise
from aotpack.lower.special_series import (
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
    """The series at a point of its interval, by Clenshaw's recurrence; ``t`` outside is moved in.

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
    """``sqrt(2) erfinv(2 p - 1)`` without the difference where it would lose the small tail."""
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
    t = apply("sub", constant(1, x.dtype), apply("div", constant(8, x.dtype), apply("add", size, 4)))
    scale = apply("add", apply("add", size, size), 1)
    above = apply("div", evaluated(ERFCX, t), scale)
    below = apply("sub", apply("mul", exp_of_square(x), 2), above)
    found = where(apply("lt", x, 0), below, above)
    return where(apply("isnan", x), x, found)


def exp_of_square(x: Value) -> Value:
    """``exp(x * x)`` with the square in two parts, as its rounding would be magnified."""
    coarse = apply("div", apply("round", apply("mul", x, 64)), 64)
    high = apply("exp", apply("square", coarse))
    rest = apply("mul", apply("sub", x, coarse), apply("add", x, coarse))
    exact = apply("mul", high, apply("exp", rest))
    return where(apply("isinf", high), high, exact)


@elementwise("aten.special_log_ndtr.default")
def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution: by erfcx where that is small."""
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


# --- gamma functions ----------------------------------------------------------------------------


@elementwise("aten.lgamma.default", "aten.special_gammaln.default")
def lgamma(x: Value) -> Value:
    return apply("lgamma", x)


@elementwise("aten.digamma.default", "aten.special_digamma.default", "aten.special_psi.default")
def digamma(x: Value) -> Value:
    """Ten steps up to where the asymptotic series holds; negative numbers by reflection."""
    reflected = apply("lt", x, 0)
    positive = where(reflected, apply("sub", constant(1, x.dtype), x), x)
    steps = constant(0, x.dtype)
    for k in range(10):
        steps = apply("add", steps, apply("reciprocal", apply("add", positive, float(k))))
    small = apply("lt", positive, 10)
    large = where(small, apply("add", positive, 10), positive)
    found = _digamma_series(large)
    found = where(small, apply("sub", found, steps), found)
    turned = apply("sub", found, apply("mul", cotangent_of_pi(x), math.pi))
    found = where(reflected, turned, found)
    zero = where(apply("signbit", x), constant(INF, x.dtype), constant(-INF, x.dtype))
    found = where(apply("eq", x, 0), zero, found)
    pole = apply("logical_and", reflected, apply("eq", x, apply("floor", x)))
    return where(pole, constant(NAN, x.dtype), found)


def cotangent_of_pi(x: Value) -> Value:
    """``1 / tan(pi x)`` of the fraction of x."""
    fraction = apply("sub", x, apply("trunc", x))
    return apply("reciprocal", apply("tan", apply("mul", fraction, math.pi)))


BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _digamma_series(x: Value) -> Value:
    """``log(x) - 1 / (2 x) - sum of B_2k / (2 k x**2k)``."""
    inverse = apply("reciprocal", x)
    square = apply("square", inverse)
    total: Value = constant(BERNOULLI[-1], x.dtype)
    for coefficient in reversed(BERNOULLI[:-1]):
        total = apply("add", apply("mul", total, square), coefficient)
    rest = apply("add", apply("mul", inverse, 0.5), apply("mul", total, square))
    return apply("sub", apply("log", x), rest)


def trigamma(x: Value) -> Value:
    """``sum of 1 / (x + k)**2``: six steps, then the asymptotic series; reflection below 1/2."""
    reflected = apply("lt", x, 0.5)
    positive = where(reflected, apply("sub", constant(1, x.dtype), x), x)
    total = constant(0, x.dtype)
    for _ in range(8):
        total = apply("add", total, apply("reciprocal", apply("square", positive)))
        positive = apply("add", positive, 1)
    inverse = apply("reciprocal", positive)
    square = apply("square", inverse)
    tail: Value = constant(-691 / 2730, x.dtype)
    for bernoulli in (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        tail = apply("add", apply("mul", tail, square), bernoulli)
    tail = apply("add", apply("mul", tail, square), 1)
    tail = apply("add", apply("mul", tail, inverse), apply("mul", square, 0.5))
    total = apply("add", total, tail)
    sine = apply("sin", apply("mul", apply("sub", x, apply("trunc", x)), math.pi))
    ratio = apply("square", apply("div", constant(math.pi, x.dtype), sine))
    return where(reflected, apply("sub", ratio, total), total)


# --- Airy's function ----------------------------------------------------------------------------


@elementwise("aten.special_airy_ai.default")
def airy_ai(x: Value) -> Value:
    """A decaying tail, a series between -3 and 3, an oscillation of falling height."""
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
