"""The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).

By region, so that nothing cancels: Temme's expansion for large a near x; for x above a Legendre's
continued fraction of Q (DLMF 8.9.2); for small x and smaller a the alternating series of Q (8.7.3);
else the series of P (8.11.4). Each has a fixed number of terms. Computed in float64, as powers
magnify rounding errors.
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.special.functions import INF, NAN
from aotpack.lower.special.gamma import BERNOULLI
from aotpack.lower.special.temme import LEAST, WIDTH, log1p_gap, polynomial, uniform
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Ref

WIDE = DType.FLOAT64
BORDER = 1.5  # the x from which the continued fraction converges fast
FRACTIONS, TERMS, ALTERNATING = 64, 56, 24
STEPS = 11  # to the range of Stirling's series
EXHAUSTED = 1000.0  # exp(-x) x**10 is 0 from here on
EULER = 0.5772156649015329


def incomplete(a: Value, x: Value, *, upper: bool) -> Value:
    """Q, or P if not ``upper``, with what eager gives at the ends."""
    found = _finite(a, x, upper=upper)
    none, all_ = (constant(number, WIDE) for number in ((1, 0) if upper else (0, 1)))
    unknown = constant(NAN, WIDE)
    found = where(apply("eq", x, INF), all_, found)
    found = where(apply("eq", a, INF), where(apply("eq", x, INF), unknown, none), found)
    found = where(apply("eq", x, 0.0), none, found)
    found = where(apply("eq", a, 0.0), where(apply("gt", x, 0.0), all_, unknown), found)
    negative = apply("logical_or", apply("lt", a, 0.0), apply("lt", x, 0.0))
    return where(negative, unknown, found)


def _finite(a: Value, x: Value, *, upper: bool) -> Value:
    mu = apply("div", apply("sub", x, a), a)
    is_near = apply("le", apply("abs", mu), WIDTH)
    factor = _power(a, x, mu)
    series = apply("mul", factor, _series(a, x))
    fraction = apply("mul", apply("mul", factor, a), _fraction(a, x))
    one = constant(1, WIDE)
    if upper:
        small = apply("lt", a, _smallest(x))
        series = where(small, _alternating(a, x), apply("sub", one, series))
    else:
        fraction = apply("sub", one, fraction)
    is_beyond = apply("logical_and", apply("gt", x, BORDER), apply("ge", x, a))
    found = where(is_beyond, fraction, series)
    is_uniform = apply("logical_and", apply("ge", a, LEAST), is_near)
    return where(is_uniform, uniform(a, mu, upper=upper), found)


def _smallest(x: Value) -> Value:
    """The a below which Q is less than half, about, for x up to ``BORDER``; none beyond it."""
    tiny = apply("div", constant(-0.4, WIDE), apply("log", x))
    near = where(apply("le", x, 0.5), tiny, apply("mul", x, 1.1))
    return where(apply("le", x, BORDER), near, constant(0, WIDE))


# --- x**a exp(-x) / gamma(a + 1) ----------------------------------------------------------------


def _power(a: Value, x: Value, mu: Value) -> Value:
    """By Stirling's formula; of small a for ``a + 11``, and the factors between."""
    is_small = apply("lt", a, float(STEPS))
    shifted = apply("add", a, float(STEPS))
    stirling = apply("exp", apply("neg", _stirling(where(is_small, shifted, a))))
    small = apply("mul", _power_of_small(a, apply("minimum", x, EXHAUSTED), shifted), stirling)
    far = apply("sub", mu, apply("log", apply("div", x, a)))
    is_near = apply("logical_and", apply("ge", mu, -WIDTH), apply("le", mu, 2 * WIDTH))
    gap = apply("mul", a, where(is_near, log1p_gap(mu), far))
    root = apply("sqrt", apply("mul", a, 2 * math.pi))
    large = apply("mul", apply("div", apply("exp", apply("neg", gap)), root), stirling)
    return where(is_small, small, large)


def _power_of_small(a: Value, x: Value, shifted: Value) -> Value:
    """``x**a b**-a exp(b - x) sqrt(b / 2 pi) (a + 1) ... (a + 10) / b**11``, b = a + 11."""
    total = apply("reciprocal", shifted)
    for k in range(1, STEPS):
        total = apply("mul", total, apply("div", apply("add", a, float(k)), shifted))
    power = apply("mul", apply("pow", x, a), apply("pow", apply("reciprocal", shifted), a))
    root = apply("sqrt", apply("mul", shifted, 1 / (2 * math.pi)))
    decay = apply("exp", apply("sub", shifted, x))
    return apply("mul", apply("mul", apply("mul", power, decay), root), total)


def _stirling(a: Value) -> Value:
    """``sum of B_2k / (2k (2k - 1) a**(2k - 1))``, from a = 11 on."""
    inverse = apply("reciprocal", a)
    terms = tuple(b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI))
    return apply("mul", polynomial(terms, apply("square", inverse)), inverse)


# --- the three forms beside Temme's -------------------------------------------------------------


def _series(a: Value, x: Value) -> Value:
    """``1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...``, from its end."""
    total: Value = constant(1, WIDE)
    for k in range(TERMS, 0, -1):
        ratio = apply("div", x, apply("add", a, float(k)))
        total = apply("add", apply("mul", ratio, total), 1.0)
    return total


def _fraction(a: Value, x: Value) -> Value:
    """``1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))``, from its end."""
    rest = apply("sub", x, a)
    total = apply("add", rest, float(2 * FRACTIONS + 1))
    for k in range(FRACTIONS, 0, -1):
        share = apply("mul", apply("sub", a, float(k)), float(k))
        total = apply("add", apply("add", rest, 2 * k - 1.0), apply("div", share, total))
    return apply("reciprocal", total)


def _alternating(a: Value, x: Value) -> Value:
    """``1 - y (1 + a sum of (-x)**n / (n! (a + n)))``, y = x**a / gamma(a + 1)."""
    total: Value = constant(0, WIDE)
    for n in range(ALTERNATING, 0, -1):
        share = apply("div", constant((-1) ** n / math.factorial(n), WIDE), apply("add", a, n))
        total = apply("mul", apply("add", total, share), x)
    log_y = apply("sub", apply("mul", a, apply("log", x)), _lgamma_beyond_1(a))
    rest = apply("mul", apply("mul", a, apply("exp", log_y)), total)
    return apply("neg", apply("add", apply("expm1", log_y), rest))


def _lgamma_beyond_1(a: Value) -> Value:
    """``lgamma(1 + a)``; below 1/2 exact beside 0.

    (``-log1p(a) + a (1 - Euler's constant) + sum of (zeta(k) - 1) (-a)**k / k``, DLMF 5.7.3.)
    """
    terms = tuple((-1) ** k * _zeta_less_1(k) / k for k in range(2, 26))
    total = apply("add", apply("mul", polynomial(terms, a), a), 1 - EULER)
    near = apply("sub", apply("mul", total, a), apply("log1p", a))
    return where(apply("lt", a, 0.5), near, apply("lgamma", apply("add", a, 1.0)))


def _zeta_less_1(k: int) -> float:
    """``2**-k + 3**-k + ...``, by Euler and Maclaurin's formula from 60 on."""
    start = 60.0
    total = sum(n**-k for n in range(59, 1, -1))
    rest = start ** (1 - k) / (k - 1) + start**-k / 2 + k * start ** (-k - 1) / 12
    rest -= k * (k + 1) * (k + 2) * start ** (-k - 3) / 720
    rest += k * (k + 1) * (k + 2) * (k + 3) * (k + 4) * start ** (-k - 5) / 30240
    return math.fsum((total, rest))


def _register(name: str, *, upper: bool) -> None:
    def handler(c: Context, self: Ref, other: Ref) -> None:
        def value(index: Index) -> Value:
            a, x = (c.operand(operand, index, WIDE) for operand in (self, other))
            return cast(incomplete(a, x, upper=upper), result_dtype(c))

        c.pointwise(c.result(), value)

    lowering(f"aten.{name}.default")(handler)


_register("igamma", upper=False)
_register("igammac", upper=True)
