"""The gamma function's logarithm and its derivatives.

Sources: Abramowitz and Stegun 6.3 and 6.4: recurrence steps up to the range of the asymptotic
series, and the reflection formulas for negative numbers.
"""

import math

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.activation import elementwise
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.special.functions import INF, NAN
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Ref

STEPS = 10


@elementwise("aten.lgamma.default", "aten.special_gammaln.default")
def lgamma(x: Value) -> Value:
    return apply("lgamma", x)


@elementwise("aten.digamma.default", "aten.special_digamma.default", "aten.special_psi.default")
def digamma(x: Value) -> Value:
    """Ten recurrence steps, then the asymptotic series; negative numbers by reflection."""
    reflected = apply("lt", x, 0)
    positive = where(reflected, apply("sub", constant(1, x.dtype), x), x)
    steps = constant(0, x.dtype)
    for k in range(STEPS):
        steps = apply("add", steps, apply("reciprocal", apply("add", positive, float(k))))
    small = apply("lt", positive, STEPS)
    large = where(small, apply("add", positive, STEPS), positive)
    found = _digamma_series(large)
    found = where(small, apply("sub", found, steps), found)
    turned = apply("sub", found, apply("mul", cotangent_of_pi(x), math.pi))
    found = where(reflected, turned, found)
    zero = where(apply("signbit", x), constant(INF, x.dtype), constant(-INF, x.dtype))
    found = where(apply("eq", x, 0), zero, found)
    pole = apply("logical_and", reflected, apply("eq", x, apply("floor", x)))
    return where(pole, constant(NAN, x.dtype), found)


def cotangent_of_pi(x: Value) -> Value:
    """``1 / tan(pi x)`` of the distance from a whole number, which is exact."""
    fraction = apply("sub", x, apply("round", x))
    return apply("reciprocal", apply("tan", apply("mul", fraction, math.pi)))


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _digamma_series(x: Value) -> Value:
    """``log(x) - 1 / (2 x) - sum of B_2k / (2 k x**2k)``."""
    inverse = apply("reciprocal", x)
    series = [number / (2 * k + 2) for k, number in enumerate(BERNOULLI)]
    total = _polynomial(series, apply("square", inverse))
    rest = apply("add", apply("mul", inverse, 0.5), apply("mul", total, apply("square", inverse)))
    return apply("sub", apply("log", x), rest)


def _polynomial(coefficients: list[float], x: Value) -> Value:
    """``c_0 + c_1 x + ...``."""
    total: Value = constant(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = apply("add", apply("mul", total, x), coefficient)
    return total


@lowering("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(c: Context, n: int, self: Ref) -> None:
    """The n-th derivative of digamma, in float64, as high powers magnify rounding errors."""
    common = result_dtype(c)

    def value(index: Index) -> Value:
        x = c.operand(self, index, common)
        if n == 0:
            return digamma(x)
        return cast(derivative(n, cast(x, DType.FLOAT64)), common)

    c.pointwise(c.result(), value)


def derivative(n: int, x: Value) -> Value:
    """``(-1)**(n + 1) n! sum of 1 / (x + k)**(n + 1)``; below zero by reflection.

    (6.4.7: psi_n(1 - x) + (-1)**(n + 1) psi_n(x) is (-1)**n pi times the n-th derivative of
    cot(pi x). So of the sums S, S(x) is (-1)**n (pi cot(pi x)^(n) + S(1 - x)).)
    """
    reflected = apply("lt", x, 0)
    positive = where(reflected, apply("sub", constant(1, x.dtype), x), x)
    total: Value = constant(0, x.dtype)
    for k in range(STEPS):
        total = apply("add", total, _inverse_power(apply("add", positive, float(k)), n + 1))
    total = apply("mul", total, float(math.factorial(n)))
    total = apply("add", total, _tail(n, apply("add", positive, float(STEPS))))
    turned = apply("mul", _cotangent_derivative(n, x), math.pi ** (n + 1))
    turned = apply("add", turned, total)
    found = where(reflected, apply("neg", turned) if n % 2 else turned, total)
    pole = apply("logical_and", apply("le", x, 0), apply("eq", x, apply("floor", x)))
    found = where(pole, constant(INF, x.dtype), found)
    return found if n % 2 else apply("neg", found)


def _inverse_power(x: Value, power: int) -> Value:
    inverse = apply("reciprocal", x)
    found = inverse
    for _ in range(power - 1):
        found = apply("mul", found, inverse)
    return found


def _tail(n: int, x: Value) -> Value:
    """6.4.11: the remainder of the sum, times n!, for large x."""
    inverse = apply("reciprocal", x)
    first = [math.factorial(n - 1), math.factorial(n) / 2]
    series = [
        number * math.factorial(2 * k + n + 1) / math.factorial(2 * k + 2)
        for k, number in enumerate(BERNOULLI)
    ]
    rest = apply("mul", _polynomial(series, apply("square", inverse)), apply("square", inverse))
    total = apply("add", apply("add", rest, apply("mul", inverse, first[1])), first[0])
    return apply("mul", total, _inverse_power(x, n))


def _cotangent_derivative(n: int, x: Value) -> Value:
    """The n-th derivative of cot at pi x, a polynomial in it: cot' = -1 - cot**2."""
    polynomial = [0.0, 1.0]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(polynomial)][1:]
        polynomial = [
            -(slope[k] if k < len(slope) else 0.0) - (slope[k - 2] if k >= 2 else 0.0)
            for k in range(len(slope) + 2)
        ]
    return _polynomial(polynomial, cotangent_of_pi(x))
