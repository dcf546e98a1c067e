"""Logarithms, roots and powers of complex numbers, and their signs.

Infinities and NaN are those of C99, Annex G.6.3.2 and G.6.4, but for signs that it leaves open.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotpack.trace.complex_numbers.exponentials import exp, grown
from aotpack.trace.complex_numbers.parts import both, in_type
from aotpack.trace.complex_numbers.ranges import larger_part, log_size, scaled


def log(z: Tensor) -> Tensor:
    return torch.complex(log_size(z.real, z.imag), z.angle())


def log_of(base: float) -> Callable[[Tensor], Tensor]:
    """The logarithm to a base."""
    factor = 1 / math.log(base)
    return lambda z: torch.complex(log_size(z.real, z.imag) * factor, z.angle() * factor)


def log1p(z: Tensor) -> Tensor:
    """``log(1 + z)``; near 0 the square of its size is ``1 + x (2 + x) + y * y``."""
    x, y = z.real, z.imag
    more = x * (2 + x) + y * y
    near = torch.where(more == 0, x, more.log1p() * 0.5)
    real = torch.where(larger_part(x, y) < 0.5, near, log_size(1 + x, y))
    return torch.complex(real, torch.atan2(y, 1 + x))


def sqrt(z: Tensor) -> Tensor:
    """By the half angle, without a difference that cancels.

    Sizes are scaled as in Kahan, "Branch cuts for complex elementary functions" (1987).
    """
    x, y = z.real, z.imag
    size, back = scaled(x, y, 0.5)
    _, scale = scaled(x, y, -1)
    large = ((size + (x * scale).abs()) * 0.5).sqrt() * back
    small = torch.where(large == 0, 0.0, y.abs() / (2 * large))
    is_right = x >= 0
    first, second = torch.where(is_right, large, small), torch.where(is_right, small, large)
    first, second = (torch.where(y.isinf(), torch.inf, one) for one in (first, second))
    return torch.complex(first, torch.copysign(second, y))


def reciprocal(z: Tensor) -> Tensor:
    return in_type(1.0, z.dtype) / z


def rsqrt(z: Tensor) -> Tensor:
    return reciprocal(sqrt(z))


def square(z: Tensor) -> Tensor:
    """``(x + y) (x - y)`` does not overflow where it is finite, as the squares do."""
    x, y = z.real, z.imag
    return torch.complex((x * 0.5 + y * 0.5) * (x - y) * 2, x * y * 2)


def sgn(z: Tensor) -> Tensor:
    """Parts over the larger one, over the size of these: NaN of infinities, as in eager."""
    large = larger_part(z.real, z.imag)
    over = torch.where(large == 0, 1.0, large)
    x, y = z.real / over, z.imag / over
    size = torch.where(large == 0, 1.0, (x * x + y * y).sqrt())
    return torch.complex(x / size, y / size)


def power(base: Any, exponent: Any) -> Tensor:
    """Small whole powers by products, those with a real number by the polar form."""
    if not isinstance(base, Tensor):
        return _power_of_number(complex(base), exponent)
    if isinstance(exponent, Tensor):
        return _power_of_tensors(*both(base, exponent))
    z, number = in_type(base, torch.result_type(base, exponent)), complex(exponent)
    if number == 0:
        return torch.ones_like(z)
    if number.imag == 0 and number.real in (-4, -3, -2, -1, -0.5, 0.5, 1, 2, 3, 4):
        whole = _by_products(z, number.real)
        if number.real > -2:
            return whole
    else:
        whole = exp(_times(log(z), number)) if number.imag else _turned(z, number.real)
    return torch.where(larger_part(z.real, z.imag) == 0, _of_zero(number.real), whole)


def _of_zero(exponent: float) -> complex:
    return 0j if exponent > 0 else complex(torch.inf if exponent else torch.nan, torch.nan)


def _power_of_number(base: complex, exponent: Tensor) -> Tensor:
    if base == 0:
        return _power_of_tensors(*both(torch.zeros_like(exponent), exponent))
    return exp(_times(exponent, cmath.log(base))) if base != 1 else torch.ones_like(exponent)


def _power_of_tensors(base: Tensor, exponent: Tensor) -> Tensor:
    """``exp(w log(z))``; 0 has powers of a positive real part, and the power 0."""
    real, is_zero = exponent.real, larger_part(base.real, base.imag) == 0
    unit = torch.where(exponent.imag == 0, 1 + 0j, complex(torch.nan, torch.nan))
    none = torch.where(real > 0, 0j, torch.where(real < 0, _of_zero(-1), unit))
    whole = exp(exponent * log(base))
    return torch.where(is_zero, in_type(none, whole.dtype), whole)


def _times(z: Tensor, number: complex) -> Tensor:
    """A number without a part leaves that of infinities alone."""
    if number.imag == 0:
        return torch.complex(z.real * number.real, z.imag * number.real)
    if number.real == 0:
        return torch.complex(-z.imag * number.imag, z.real * number.imag)
    return z * number


def _turned(z: Tensor, exponent: float) -> Tensor:
    """Sizes have half the power twice, with the turn between."""
    size, back = scaled(z.real, z.imag, exponent)
    half, angle = size ** (exponent * 0.5), z.angle() * exponent
    real = angle.cos() * half * half * back
    return torch.complex(real, grown(back, angle.sin(), half))


def _by_products(z: Tensor, exponent: float) -> Tensor:
    """The reciprocal comes first: it does not overflow where the power is finite."""
    if abs(exponent) == 0.5:
        return sqrt(z) if exponent > 0 else rsqrt(z)
    base = z if exponent > 0 else reciprocal(z)
    if abs(exponent) == 1:
        return base
    twice = square(base)
    return {2: lambda: twice, 3: lambda: twice * base, 4: lambda: square(twice)}[
        int(abs(exponent))
    ]()
