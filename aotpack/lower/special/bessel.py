"""Bessel functions: fitted series near zero; far from it a fitted times a known factor.

Sources: Abramowitz and Stegun 9.2 (P, Q and the phase), 9.6 and 9.7 (the modified functions).
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.elementwise.activation import elementwise
from aotpack.lower.special import series as fitted
from aotpack.lower.special.functions import INF, NAN, evaluated
from aotpack.lower.special.series import Series
from aotpack.lower.values import apply, cast, constant, where

WIDE = DType.FLOAT64
BORDER = 8.0
MODIFIED_BORDER = 2.0


# --- modified, of the first kind ----------------------------------------------------------------


def _scaled_i(size: Value, near: Series, far: Series) -> Value:
    """``exp(-x) I(x)`` of sizes; of order 1 without its factor x up to 8."""
    outside = apply("maximum", size, BORDER)
    falling = evaluated(far, apply("div", constant(BORDER, size.dtype), outside))
    beyond = apply("div", falling, apply("sqrt", outside))
    return where(apply("lt", size, BORDER), evaluated(near, size), beyond)


@elementwise("aten.special_i0e.default")
def i0e(x: Value) -> Value:
    return _with_nan(x, _scaled_i(apply("abs", x), fitted.I0_NEAR, fitted.I0_FAR))


@elementwise(
    "aten.i0.default", "aten.special_i0.default", "aten.special_modified_bessel_i0.default"
)
def i0(x: Value) -> Value:
    return _times_exp(apply("abs", x), i0e(x))


@elementwise("aten.special_i1e.default")
def i1e(x: Value) -> Value:
    size = apply("abs", x)
    found = _scaled_i(size, fitted.I1_NEAR, fitted.I1_FAR)
    found = where(apply("lt", size, BORDER), apply("mul", found, size), found)
    return _with_nan(x, where(apply("lt", x, 0), apply("neg", found), found))


@elementwise("aten.special_i1.default", "aten.special_modified_bessel_i1.default")
def i1(x: Value) -> Value:
    return _times_exp(apply("abs", x), i1e(x))


def _times_exp(size: Value, scaled: Value) -> Value:
    """``exp(size) * scaled``: in two factors where the exponential alone is near infinity."""
    large = apply("gt", size, 80.0 if size.dtype is DType.FLOAT32 else 700.0)
    half = apply("exp", apply("mul", size, 0.5))
    split = apply("mul", apply("mul", scaled, half), half)
    found = where(large, split, apply("mul", scaled, apply("exp", size)))
    return where(apply("isinf", size), constant(NAN, size.dtype), found)  # as eager has it


def _with_nan(x: Value, found: Value) -> Value:
    """Propagate NaN, which a series would clamp into its interval."""
    return where(apply("isnan", x), x, found)


# --- modified, of the second kind ---------------------------------------------------------------


def _k(x: Value, order: int, *, scaled: bool) -> Value:
    """K(x), or exp(x) K(x); infinite at 0, NaN below."""
    inner = apply("minimum", x, MODIFIED_BORDER)
    log = _log_of_half(inner, exact=order == 0)
    square = apply("square", inner)
    if order == 0:
        near = apply("sub", evaluated(fitted.K0_NEAR, square), apply("mul", log, i0(inner)))
    else:
        rest = apply("div", evaluated(fitted.K1_NEAR, square), inner)
        near = apply("add", rest, apply("mul", log, i1(inner)))
    outer = apply("maximum", x, MODIFIED_BORDER)
    series = fitted.K0_FAR if order == 0 else fitted.K1_FAR
    falling = evaluated(series, apply("div", constant(MODIFIED_BORDER, x.dtype), outer))
    far = apply("div", falling, apply("sqrt", outer))
    if scaled:
        near = apply("mul", near, apply("exp", inner))
    else:
        far = apply("mul", far, apply("exp", apply("neg", outer)))
    found = where(apply("le", x, MODIFIED_BORDER), near, far)
    found = where(apply("eq", x, 0), constant(INF, x.dtype), found)
    return _with_nan(x, where(apply("lt", x, 0), constant(NAN, x.dtype), found))


def _log_of_half(x: Value, *, exact: bool) -> Value:
    """``log(x / 2)``; half of the least number is 0, as eager has it where it is not ``exact``."""
    half = apply("mul", x, 0.5)
    if not exact or x.dtype is not DType.FLOAT32:
        return apply("log", half)
    tiny = apply("lt", x, 1e-30)
    log = apply("log", where(tiny, x, half))
    return where(tiny, apply("sub", log, math.log(2)), log)


@elementwise("aten.special_modified_bessel_k0.default")
def k0(x: Value) -> Value:
    return _k(x, 0, scaled=False)


@elementwise("aten.special_modified_bessel_k1.default")
def k1(x: Value) -> Value:
    return _k(x, 1, scaled=False)


@elementwise("aten.special_scaled_modified_bessel_k0.default")
def scaled_k0(x: Value) -> Value:
    return _k(x, 0, scaled=True)


@elementwise("aten.special_scaled_modified_bessel_k1.default")
def scaled_k1(x: Value) -> Value:
    return _k(x, 1, scaled=True)


# --- of the first and second kind: in float64, as oscillations cancel ---------------------------


def _wave(size: Value, order: int, *, second: bool) -> Value:
    """J, or Y, from 8 on: ``sqrt(2 / (pi x)) (P cos(phase) - Q sin(phase))``."""
    outer = apply("maximum", size, BORDER)
    t = apply("square", apply("div", constant(BORDER, size.dtype), outer))
    p = evaluated(fitted.P0_FAR if order == 0 else fitted.P1_FAR, t)
    q = evaluated(fitted.Q0_FAR if order == 0 else fitted.Q1_FAR, t)
    q = apply("div", q, outer)
    sine, cosine = apply("sin", outer), apply("cos", outer)
    # cosine and sine of the phase x - (2 order + 1) pi / 4, times sqrt(2)
    if order == 0:
        cos_phase, sin_phase = apply("add", cosine, sine), apply("sub", sine, cosine)
    else:
        cos_phase = apply("sub", sine, cosine)
        sin_phase = apply("neg", apply("add", sine, cosine))
    if second:
        found = apply("add", apply("mul", p, sin_phase), apply("mul", q, cos_phase))
    else:
        found = apply("sub", apply("mul", p, cos_phase), apply("mul", q, sin_phase))
    found = apply("div", found, apply("sqrt", apply("mul", outer, math.pi)))
    return where(apply("isinf", size), constant(NAN, size.dtype), found)  # as eager has it


@elementwise("aten.special_bessel_j0.default")
def j0(x: Value) -> Value:
    x = cast(x, WIDE)
    size = apply("abs", x)
    near = evaluated(fitted.J0_NEAR, apply("square", size))
    return _with_nan(x, where(apply("lt", size, BORDER), near, _wave(size, 0, second=False)))


@elementwise("aten.special_bessel_j1.default")
def j1(x: Value) -> Value:
    x = cast(x, WIDE)
    size = apply("abs", x)
    near = apply("mul", evaluated(fitted.J1_NEAR, apply("square", size)), size)
    found = where(apply("lt", size, BORDER), near, _wave(size, 1, second=False))
    return _with_nan(x, where(apply("lt", x, 0), apply("neg", found), found))


def _y(x: Value, near: Value, order: int) -> Value:
    found = where(apply("lt", x, BORDER), near, _wave(x, order, second=True))
    found = where(apply("eq", x, 0), constant(-INF, x.dtype), found)
    return _with_nan(x, where(apply("lt", x, 0), constant(NAN, x.dtype), found))


@elementwise("aten.special_bessel_y0.default")
def y0(x: Value) -> Value:
    x = cast(x, WIDE)
    inner = apply("minimum", x, BORDER)
    log = apply("mul", apply("log", inner), 2 / math.pi)
    rest = evaluated(fitted.Y0_NEAR, apply("square", inner))
    return _y(x, apply("add", apply("mul", log, j0(inner)), rest), 0)


@elementwise("aten.special_bessel_y1.default")
def y1(x: Value) -> Value:
    x = cast(x, WIDE)
    inner = apply("minimum", x, BORDER)
    log = apply("mul", apply("log", inner), 2 / math.pi)
    rest = apply("mul", evaluated(fitted.Y1_NEAR, apply("square", inner)), inner)
    pole = apply("div", constant(2 / math.pi, x.dtype), inner)
    near = apply("add", apply("mul", log, j1(inner)), apply("sub", rest, pole))
    return _y(x, near, 1)


@elementwise("aten.special_spherical_bessel_j0.default")
def spherical_j0(x: Value) -> Value:
    """``sin(x) / x``; 1 at 0, and 0 at infinity."""
    ratio = apply("div", apply("sin", x), x)
    found = where(apply("eq", x, 0), constant(1, x.dtype), ratio)
    return where(apply("isinf", x), constant(0, x.dtype), found)
