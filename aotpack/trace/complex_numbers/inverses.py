"""Inverse trigonometric and hyperbolic functions of complex numbers.

By Kahan, "Branch cuts for complex elementary functions" (1987), whose products of ``sqrt(1 - z)``
and ``sqrt(1 + z)`` are sums of one sign. Numbers from ``2 / eps`` on have the logarithm of twice
their size. Infinities and NaN are those of C99, Annex G.6.1 and G.6.2.
"""

import math

import torch
from torch import Tensor

from aotpack.trace.complex_numbers.ranges import larger_part, log_size
from aotpack.trace.complex_numbers.roots import reciprocal, sqrt


def asin(z: Tensor) -> Tensor:
    return torch.complex(*_asin(z.real, z.imag))


def asinh(z: Tensor) -> Tensor:
    """``i asin(-iz)``."""
    real, imaginary = _asin(z.imag, -z.real)
    return torch.complex(-imaginary, real)


def acos(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    left, right = _roots(x, y)
    height = _height(x, y, right.real * left.imag - right.imag * left.real)
    angle = 2 * torch.atan2(left.real, right.real)
    real = torch.where(_is_far(x, y), torch.atan2(y.abs(), x), angle)
    return torch.complex(torch.where(x == 0, math.pi / 2, real), torch.copysign(height, -y))


def acosh(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    left, right = sqrt(torch.complex(x - 1, y)), sqrt(torch.complex(x + 1, y))
    height = _height(x, y, left.real * right.real + left.imag * right.imag)
    angle = torch.where(_is_far(x, y), torch.atan2(y, x), 2 * torch.atan2(left.imag, right.real))
    return torch.complex(height, torch.where(x == 0, _quarter(y), angle))


def atanh(z: Tensor) -> Tensor:
    return torch.complex(*_atanh(z.real, z.imag))


def atan(z: Tensor) -> Tensor:
    """``-i atanh(iz)``."""
    real, imaginary = _atanh(-z.imag, z.real)
    return torch.complex(imaginary, -real)


def _roots(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return sqrt(torch.complex(1 - x, -y)), sqrt(torch.complex(1 + x, y))


def _is_far(x: Tensor, y: Tensor) -> Tensor:
    return (larger_part(x, y) > 2 / torch.finfo(x.dtype).eps) | x.isinf() | y.isinf()


def _height(x: Tensor, y: Tensor, sine: Tensor) -> Tensor:
    """The size of ``asinh``, far from 0 that of a logarithm."""
    return torch.where(_is_far(x, y), log_size(x, y) + math.log(2), sine.asinh().abs())


def _asin(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    left, right = _roots(x, y)
    height = _height(x, y, left.real * right.imag - left.imag * right.real)
    across = left.real * right.real - left.imag * right.imag
    angle = torch.atan2(x, torch.where(_is_far(x, y), y.abs(), across))
    return torch.where(x == 0, x, angle), torch.copysign(height, y)


def _atanh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Near a pole the difference of two logarithms, far from 0 the reciprocal."""
    a = x.abs()
    gap, is_far = larger_part(1 - a, y), _is_far(x, y)
    near = (log_size(1 + a, y) - log_size(1 - a, y)) * 0.5
    between = (4 * a / ((1 - a) * (1 - a) + y * y)).log1p() * 0.25
    far = reciprocal(torch.complex(a, y)).real
    far = torch.where(x.isinf() | y.isinf(), 0.0, far)
    real = torch.where(is_far, far, torch.where(gap < 0.25, near, between))
    turn = torch.atan2(2 * y, (1 - a) * (1 + a) - y * y) * 0.5
    turn = torch.where(is_far & ~y.isnan(), _quarter(y), turn)
    return torch.copysign(torch.where(a == 0, a, real), x), turn


def _quarter(y: Tensor) -> Tensor:
    """A quarter turn to the side of ``y``."""
    return torch.copysign(torch.full_like(y, math.pi / 2), y)
