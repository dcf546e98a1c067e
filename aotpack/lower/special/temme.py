"""Temme's uniform expansion of the incomplete gamma functions for large a (DLMF 8.12).

With mu = x / a - 1 and eta**2 / 2 = mu - log(1 + mu), eta of mu's sign:

    Q(a, x) = erfc(eta sqrt(a / 2)) / 2 + R,  P(a, x) = erfc(-eta sqrt(a / 2)) / 2 - R,
    R = exp(-a eta**2 / 2) / sqrt(2 pi a) (c_0(eta) + c_1(eta) / a + ...).

The c_k are power series, exact to here: c_0 = 1 / mu - 1 / eta and (8.12.10) c_k = c_(k-1)' / eta
+ g_k / mu, where g_k cancels the pole.
"""

import math
from fractions import Fraction
from functools import cache

from aotpack.ir.values import Value
from aotpack.lower.values import apply, constant, where

LEAST = 20.0  # the a from which the expansion is used,
WIDTH = 0.5  # and the greatest mu
_ETA = 0.63  # the greatest eta of such mu: -log(0.5) - 0.5 is eta**2 / 2
_ENOUGH = 2e-17  # terms below it are left out
_ORDERS, _POWERS = 12, 26


def log1p_gap(mu: Value) -> Value:
    """``mu - log(1 + mu)`` for mu from -1/2 to 1, as exact near 0 as elsewhere.

    With s = mu / (2 + mu), log(1 + mu) is 2 atanh(s) and mu - 2 s is mu s.
    """
    s = apply("div", mu, apply("add", mu, 2.0))
    square = apply("square", s)
    total = polynomial(tuple(1 / (2 * k + 3) for k in range(17)), square)
    cubic = apply("mul", apply("mul", total, square), apply("add", s, s))
    return apply("sub", apply("mul", mu, s), cubic)


def uniform(a: Value, mu: Value, *, upper: bool) -> Value:
    """Q(a, x), or P(a, x) if not ``upper``."""
    gap = log1p_gap(mu)
    size = apply("sqrt", apply("maximum", apply("add", gap, gap), 0.0))
    eta = where(apply("lt", mu, 0.0), apply("neg", size), size)
    point = apply("mul", eta, apply("sqrt", apply("mul", a, 0.5)))
    half = apply("mul", apply("erfc", point if upper else apply("neg", point)), 0.5)
    root = apply("sqrt", apply("mul", a, 2 * math.pi))
    decay = apply("div", apply("exp", apply("neg", apply("mul", a, gap))), root)
    rest = apply("mul", decay, _sum(eta, apply("reciprocal", a)))
    return apply("add" if upper else "sub", half, rest)


def _sum(eta: Value, inverse: Value) -> Value:
    """``c_0(eta) + c_1(eta) inverse + ...``."""
    rows = [polynomial(row, eta) for row in coefficients()]
    total = rows[-1]
    for row in reversed(rows[:-1]):
        total = apply("add", apply("mul", total, inverse), row)
    return total


def polynomial(terms: tuple[float, ...], x: Value) -> Value:
    """``t_0 + t_1 x + ...``."""
    total: Value = constant(terms[-1], x.dtype)
    for term in reversed(terms[:-1]):
        total = apply("add", apply("mul", total, x), term)
    return total


@cache
def coefficients() -> tuple[tuple[float, ...], ...]:
    """Of each c_k those coefficients that count, lowest power first."""
    rows = [_first(_POWERS + 2 * _ORDERS)]
    while len(rows) < _ORDERS:
        before = rows[-1]
        pairs = zip(before[2:], rows[0], strict=False)
        rows.append([(n + 2) * d - before[1] * first for n, (d, first) in enumerate(pairs)])
    kept = (_kept(row, LEAST**k) for k, row in enumerate(rows))
    return tuple(row for row in kept if row)


def _kept(row: list[Fraction], scale: float) -> tuple[float, ...]:
    numbers = [float(number) for number in row]
    sizes = [abs(number) * _ETA**n / scale for n, number in enumerate(numbers)]
    count = max((n + 1 for n, size in enumerate(sizes) if size > _ENOUGH), default=0)
    return tuple(numbers[:count])


def _first(count: int) -> list[Fraction]:
    """The series ``1 / mu - 1 / eta`` in eta: that of ``eta / mu``, without its first term."""
    ratio = _mu(count + 2)[1:]
    inverse = [Fraction(1)]
    for n in range(1, count + 1):
        known = (ratio[k] * inverse[n - k] for k in range(1, n + 1))
        inverse.append(-sum(known, Fraction(0)))
    return inverse[1:]


def _mu(count: int) -> list[Fraction]:
    """The series of mu in eta: mu' mu = eta (1 + mu), power by power."""
    found = [Fraction(0), Fraction(1)]
    for n in range(2, count):
        known = sum(found[k] * found[n + 1 - k] for k in range(2, n))
        found.append((2 * found[n - 1] / (n + 1) - known) / 2)
    return found
