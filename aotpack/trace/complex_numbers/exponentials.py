"""Exponentials of complex numbers, hyperbolic and trigonometric functions.

Infinities and NaN are those of C99, Annex G.6.2 and G.6.3, but for signs that it leaves open.
"""

import torch
from torch import Tensor

from aotpack.trace.complex_numbers.ranges import exponent_of, is_endless


def exp(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    part, root = exponent_of(x)
    size, is_open = part.exp(), is_endless(x, y)
    real = torch.where(is_open, torch.where(x < 0, 0.0, x), size * y.cos() * root * root)
    imaginary = grown(size, y.sin(), root)
    return torch.complex(real, torch.where(is_open & (x < 0), 0.0, imaginary))


def expm1(z: Tensor) -> Tensor:
    """``exp(x) cos(y) - 1`` as ``expm1(x) cos(y) - 2 sin(y / 2)**2``, where it may cancel."""
    x, y = z.real, z.imag
    whole, half = exp(z), (y * 0.5).sin()
    near = x.expm1() * y.cos() - 2 * half * half
    real = torch.where(x > 40, whole.real, torch.where(x < -40, whole.real - 1, near))
    return torch.complex(real, whole.imag)


def sinh(z: Tensor) -> Tensor:
    return torch.complex(*_sinh(z.real, z.imag))


def cosh(z: Tensor) -> Tensor:
    return torch.complex(*_cosh(z.real, z.imag))


def sin(z: Tensor) -> Tensor:
    """``-i sinh(iz)``."""
    real, imaginary = _sinh(-z.imag, z.real)
    return torch.complex(imaginary, -real)


def cos(z: Tensor) -> Tensor:
    """``cosh(iz)``."""
    return torch.complex(*_cosh(-z.imag, z.real))


def tanh(z: Tensor) -> Tensor:
    return torch.complex(*_tanh(z.real, z.imag))


def tan(z: Tensor) -> Tensor:
    """``-i tanh(iz)``."""
    real, imaginary = _tanh(-z.imag, z.real)
    return torch.complex(imaginary, -real)


def sigmoid(z: Tensor) -> Tensor:
    """Of ``exp(-|x|)``: ``1 / (1 + exp(-z))``, or ``exp(z) / (1 + exp(z))`` left of 0.

    The cosine of ``y`` is that of its half, so that nothing cancels near the poles.
    """
    x = z.real
    y = torch.where(is_endless(x, z.imag), 0.0, z.imag)
    part, root = exponent_of(-x.abs())
    small, rest = part.exp() * root * root, -torch.expm1(-x.abs())
    sine, cosine = (y * 0.5).sin(), (y * 0.5).cos()
    above = 2 * cosine * cosine
    divisor = rest * rest + 2 * small * above
    left = part.exp() * ((above - rest) / divisor) * root * root
    turn = part.exp() * (2 * sine * cosine / divisor) * root * root
    real = torch.where(x < 0, left, (rest + small * above) / divisor)
    return torch.complex(real, turn)


def _sinh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    part, root = _even_exponent(x)
    real = torch.where(is_endless(x, y), x, grown(part.sinh(), y.cos(), root))
    return real, grown(part.cosh(), y.sin(), root)


def _cosh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    part, root = _even_exponent(x)
    real = torch.where(is_endless(x, y), x.abs(), part.cosh() * y.cos() * root * root)
    return real, grown(part.sinh(), y.sin(), root)


def _even_exponent(x: Tensor) -> tuple[Tensor, Tensor]:
    part, root = exponent_of(x.abs())
    return torch.copysign(part, x), root


def grown(a: Tensor, b: Tensor, root: Tensor) -> Tensor:
    """``a * b * root * root``; a zero stays one, whatever the others are."""
    signs = (torch.copysign(torch.ones_like(one), one) for one in (b, a))
    zero = torch.where(a == 0, a * next(signs), b * next(signs))
    return torch.where((a == 0) | (b == 0), zero, a * b * root * root)


def _tanh(x: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
    """Of ``exp(-2 |x|)``, which does not overflow, over a sum of squares, which does not cancel."""
    y = torch.where(is_endless(x, imaginary), 0.0, imaginary)
    small, rest = (-2 * x.abs()).exp(), -torch.expm1(-2 * x.abs())
    sine, cosine = y.sin(), y.cos()
    divisor = rest * rest + 4 * small * (cosine * cosine)
    rise = torch.copysign(-torch.expm1(-4 * x.abs()), x)
    turn = torch.where(y == 0, y, 4 * small * (sine * cosine) / divisor)
    return torch.where(x == 0, x, rise / divisor), turn
