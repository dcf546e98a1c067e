"""Hurwitz's zeta function: the sum of ``(q + k)**-s`` over all k >= 0, for s above 1.

Ten terms, then the Euler-Maclaurin formula (DLMF 25.11.28). Of a negative q, which only whole s
admit, the m terms below zero are those of positive numbers with the sign of ``(-1)**s``: with
f = 1 - m - q between 0 and 1 their sum is ``zeta(s, f) - zeta(s, f + m)``. Computed in float64, as
powers magnify rounding errors.
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.special.functions import INF, NAN
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Ref

WIDE = DType.FLOAT64
TERMS = 10
FAR = 1e8  # from here on the first two terms of the formula suffice
BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798),
    *(-174611 / 330, 854513 / 138, -236364091 / 2730),
)


def _power(base: Value, s: Value) -> Value:
    return apply("pow", base, apply("neg", s))


def _of_positive(s: Value, q: Value) -> Value:
    """The sum for q above 0."""
    total = _power(q, s)
    for k in range(1, TERMS):
        total = apply("add", total, _power(apply("add", q, float(k)), s))
    start = apply("add", q, float(TERMS))
    first = _power(start, s)
    rest = apply("mul", first, _tail(s, start))
    is_all = apply("lt", first, apply("mul", total, 2.0**-54))
    near = where(is_all, total, apply("add", total, rest))
    two = apply("add", apply("div", q, apply("sub", s, 1.0)), 0.5)
    return where(apply("gt", q, FAR), apply("mul", _power(q, s), two), near)


def _tail(s: Value, start: Value) -> Value:
    """``start / (s - 1) + 1 / 2 + sum of B_2j / (2j)! s ... (s + 2j - 2) start**(1 - 2j)``."""
    total = apply("add", apply("div", start, apply("sub", s, 1.0)), 0.5)
    inverse = apply("reciprocal", start)
    rising = apply("mul", s, inverse)
    for k, number in enumerate(BERNOULLI):
        share = number / math.factorial(2 * k + 2)
        total = apply("add", total, apply("mul", rising, share))
        for step in (2 * k + 1, 2 * k + 2):
            rising = apply("mul", rising, apply("mul", apply("add", s, float(step)), inverse))
    return total


def zeta(s: Value, q: Value) -> Value:
    """Infinity at s = 1 and at the poles of q; NaN below s = 1, and for undefined powers."""
    below = apply("lt", q, 0.0)
    count = where(below, apply("ceil", apply("neg", q)), constant(0, WIDE))
    found = _of_positive(s, apply("add", q, count))
    one = constant(1, WIDE)
    inner = where(below, apply("sub", apply("sub", one, count), q), one)
    outer = where(below, apply("sub", one, q), one)
    turned = apply("sub", _of_positive(s, inner), _of_positive(s, outer))
    is_odd = apply("ne", apply("fmod", s, 2.0), 0.0)
    turned = where(is_odd, apply("neg", turned), turned)
    found = where(below, apply("add", found, turned), found)
    broken = apply("logical_and", below, apply("ne", s, apply("floor", s)))
    found = where(broken, constant(NAN, WIDE), found)
    pole = apply("logical_and", apply("le", q, 0.0), apply("eq", q, apply("floor", q)))
    found = where(pole, constant(INF, WIDE), found)
    found = where(apply("lt", s, 1.0), constant(NAN, WIDE), found)
    return where(apply("eq", s, 1.0), constant(INF, WIDE), found)


@lowering(*(f"aten.special_zeta.{name}" for name in ("default", "self_scalar", "other_scalar")))
def special_zeta(c: Context, self: Ref | Scalar, other: Ref | Scalar) -> None:
    def value(index: Index) -> Value:
        found = zeta(c.operand(self, index, WIDE), c.operand(other, index, WIDE))
        return cast(found, result_dtype(c))

    c.pointwise(c.result(), value)
