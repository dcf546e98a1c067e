"""Sizes that are rounded floats of sizes: ``int(1.5 * n)`` -> ``3 * n // 2``.

torch computes them in float64. A fraction of small numbers replaces the factor where it gives the
same integer for each admitted size.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import sympy

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int

ROUNDINGS = ("TruncToInt", "FloorToInt", "CeilToInt")
_EXACT = 2**53  # integers that float64 has
_MOST_SIZES = 2**24  # that are tried
_DENOMINATORS = (1, 10, 100, 1000, 10_000)

_QUOTIENTS = ("IntTrueDiv", "FloatTrueDiv")

Whole = TypeVar("Whole", Int, np.ndarray)
Convert = Callable[[Any], Int]


def whole_number(expr: Any, convert: Convert) -> Int:
    """A factor times a size, or a size over a number, as an integer."""
    (inner,) = expr.args
    size, factor, is_quotient = _scaled(inner, convert)
    low, high = bounds(size)
    if low < 0 or factor <= 0:
        raise _refusal(expr, "accepted are positive sizes and factors")
    upwards = type(expr).__name__ == "CeilToInt"
    exact = Fraction(factor)
    if (is_quotient and high < _EXACT) or exact.numerator * high < _EXACT:
        return _times(size, exact, upwards)  # no rounding reaches an integer
    if high - low >= _MOST_SIZES:
        raise _refusal(expr, f"the size is at most {high}: declare a smaller maximum")
    sizes = np.arange(int(low), int(high) + 1)
    product = sizes * float(factor)
    wanted = (np.ceil(product) if upwards else np.floor(product)).astype(np.int64)
    for near in _fractions(exact):
        if np.array_equal(_times(sizes, near, upwards), wanted):
            return _times(size, near, upwards)
    raise _refusal(expr, "no fraction of small numbers gives the same for each admitted size")


def _scaled(expr: Any, convert: Convert) -> tuple[Int, Fraction, bool]:
    """The size, its factor, and whether that is one over a number."""
    kind = type(expr).__name__
    if kind == "ToFloat":
        return convert(expr.args[0]), Fraction(1), True
    if kind in _QUOTIENTS:
        above, below = expr.args
        number = Fraction(float(below)) if below.is_number else Fraction(0)
        if number > 0 and number.denominator == 1:
            is_float = type(above).__name__ == "ToFloat"
            return convert(above.args[0] if is_float else above), 1 / number, True
    if isinstance(expr, sympy.Mul) and len(expr.args) == 2 and expr.args[0].is_number:
        size, factor, _ = _scaled(expr.args[1], convert)
        if factor == 1:
            return size, Fraction(float(expr.args[0])), False
    raise _refusal(expr, "accepted are a number times a size, and a size over a number")


def _times(size: Whole, factor: Fraction, upwards: bool) -> Whole:
    scaled = size * factor.numerator
    if upwards:
        scaled = scaled + (factor.denominator - 1)
    return scaled // factor.denominator


def _fractions(exact: Fraction) -> Iterator[Fraction]:
    yield from dict.fromkeys(exact.limit_denominator(most) for most in _DENOMINATORS)


def _refusal(expr: Any, accepted: str) -> UnsupportedError:
    return UnsupportedError(f"a size is rounded from a float ({expr}); {accepted}")
