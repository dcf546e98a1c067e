"""Operators of complex numbers by elements, as formulas of real and imaginary parts.

Formulas of real numbers that overflow earlier than the result stay with factors.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from aotpack.trace.complex_numbers.parts import in_type, like, of_pairs, pairs_of

Formula = Callable[..., Any]


def _exp(z: Tensor) -> Tensor:
    return torch.polar(z.real.exp(), z.imag)


def _log(z: Tensor) -> Tensor:
    return torch.complex(z.abs().log(), z.angle())


def _sqrt(z: Tensor) -> Tensor:
    """By the half angle, without a difference that cancels."""
    size, real, imaginary = z.abs(), z.real, z.imag
    large = ((size + real.abs()) * 0.5).sqrt()
    small = torch.where(large == 0, 0.0, imaginary.abs() / (2 * large))
    is_right = real >= 0
    first, second = torch.where(is_right, large, small), torch.where(is_right, small, large)
    return torch.complex(first, torch.copysign(second, imaginary))


def _sinh(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return torch.complex(x.sinh() * y.cos(), x.cosh() * y.sin())


def _cosh(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return torch.complex(x.cosh() * y.cos(), x.sinh() * y.sin())


def _sin(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return torch.complex(x.sin() * y.cosh(), x.cos() * y.sinh())


def _cos(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return torch.complex(x.cos() * y.cosh(), -(x.sin() * y.sinh()))


def _tan(z: Tensor) -> Tensor:
    turned = _tanh(torch.complex(-z.imag, z.real))
    return torch.complex(turned.imag, -turned.real)


def _log_of(base: float) -> Formula:
    return lambda z: torch.complex(z.abs().log() / math.log(base), z.angle() / math.log(base))


def _tanh(z: Tensor) -> Tensor:
    """Of ``exp(-2 |x|)``, which does not overflow."""
    x, y = z.real, z.imag
    small = (-2 * x.abs()).exp()
    square = small * small
    divisor = 1 + 2 * small * (2 * y).cos() + square
    rise = torch.copysign(-torch.expm1(-4 * x.abs()), x)
    return torch.complex(rise / divisor, 2 * small * (2 * y).sin() / divisor)


def _sigmoid(z: Tensor) -> Tensor:
    return (_tanh(z * 0.5) + 1) * 0.5


def _reciprocal(z: Tensor) -> Tensor:
    return in_type(1.0, z.dtype) / z


def _square(z: Tensor) -> Tensor:
    return z * z


def _rsqrt(z: Tensor) -> Tensor:
    return _reciprocal(_sqrt(z))


def _sgn(z: Tensor) -> Tensor:
    size = z.abs()
    is_zero = size == 0
    over = torch.where(is_zero, 1.0, size)
    return torch.complex(z.real / over, z.imag / over)


def _power(z: Tensor, exponent: Any) -> Tensor:
    """Small whole powers by products, others by the polar form."""
    number = complex(exponent)
    if number.imag == 0 and number.real in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0):
        return _by_products(z, number.real)
    whole = (_log(z) * number).exp() if number.imag else _turned(z, number.real)
    none = 0.0 if number.real > 0 else 1.0 if number == 0 else torch.nan
    return torch.where(z.abs() == 0, none, whole)


def _turned(z: Tensor, exponent: float) -> Tensor:
    return torch.polar(z.abs() ** exponent, z.angle() * exponent)


def _by_products(z: Tensor, exponent: float) -> Tensor:
    if abs(exponent) == 0.5:
        return _sqrt(z) if exponent > 0 else _rsqrt(z)
    square = z * z
    made = {1: z, 2: square, 3: square * z, 4: square * square}[int(abs(exponent))]
    return made if exponent > 0 else _reciprocal(made)


def _added(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + alpha * y


def _subtracted(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - alpha * y


def _equal(x: Tensor, y: Any) -> Tensor:
    ours, theirs = _both(x, y)
    return (ours.real == theirs.real) & (ours.imag == theirs.imag)


def _unequal(x: Tensor, y: Any) -> Tensor:
    return ~_equal(x, y)


def _both(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands in the complex type of both; one of them is complex."""
    dtype = torch.result_type(x, y)
    return in_type(x, dtype), in_type(y, dtype)


def _where(condition: Tensor, x: Any, y: Any) -> Tensor:
    ours, theirs = _both(x, y)
    return of_pairs(torch.where(condition.unsqueeze(-1), pairs_of(ours), pairs_of(theirs)))


def _masked(z: Tensor, mask: Tensor, value: Any) -> Tensor:
    return _where(mask, like(value, z), z)


def _all_parts(test: Formula, join: Formula) -> Formula:
    return lambda z: join(test(z.real), test(z.imag))


ELEMENTWISE: Mapping[str, Formula] = {
    "aten.exp.default": _exp,
    "aten.log.default": _log,
    "aten.sqrt.default": _sqrt,
    "aten.rsqrt.default": _rsqrt,
    "aten.sin.default": _sin,
    "aten.cos.default": _cos,
    "aten.sinh.default": _sinh,
    "aten.cosh.default": _cosh,
    "aten.tan.default": _tan,
    "aten.log2.default": _log_of(2.0),
    "aten.log10.default": _log_of(10.0),
    "aten.tanh.default": _tanh,
    "aten.sigmoid.default": _sigmoid,
    "aten.reciprocal.default": _reciprocal,
    "aten.square.default": _square,
    "aten.sgn.default": _sgn,
    "aten.pow.Tensor_Scalar": _power,
    "aten.add.Tensor": _added,
    "aten.sub.Tensor": _subtracted,
    "aten.eq.Tensor": _equal,
    "aten.eq.Scalar": _equal,
    "aten.ne.Tensor": _unequal,
    "aten.ne.Scalar": _unequal,
    "aten.where.self": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.masked_fill.Scalar": _masked,
    "aten.masked_fill.Tensor": _masked,
    "aten.isnan.default": _all_parts(torch.isnan, torch.logical_or),
    "aten.isinf.default": _all_parts(torch.isinf, torch.logical_or),
    "aten.isfinite.default": _all_parts(torch.isfinite, torch.logical_and),
}
