"""Operators of complex tensors as formulas in torch: of real and imaginary parts, or of pairs.

A formula takes the operator's arguments. What it calls is real, moves pairs, or has a lowering or a
formula itself. Formulas of real numbers that overflow earlier than the result stay with factors.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Formula = Callable[..., Any]
Tensor = torch.Tensor


def _complex(x: Any, like: Tensor) -> Tensor:
    """A tensor or number in the type of another."""
    return _in(x, like.dtype)


def _in(x: Any, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if isinstance(x, Tensor) else torch.scalar_tensor(x, dtype=dtype)


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_real(x)


def _of_pairs(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.contiguous())


# --- creation -----------------------------------------------------------------------------------


def _part_type(dtype: torch.dtype | None, *values: Any) -> torch.dtype | None:
    """The type of the parts of a complex type; None for torch's default type."""
    return None if dtype is None else torch.empty((), dtype=dtype, device="meta").real.dtype


def _zeros(size: Sequence[Any], dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _of_pairs(torch.zeros((*size, 2), dtype=_part_type(dtype)))


def _full(size: Sequence[Any], value: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    number, real = complex(value), _part_type(dtype)
    if real is None:
        real = torch.get_default_dtype()
    parts = (torch.full(size, part, dtype=real) for part in (number.real, number.imag))
    return torch.complex(*parts)


def _ones(size: Sequence[Any], dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _full(size, 1.0, dtype)


def _zeros_like(x: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _zeros(x.shape, dtype or x.dtype)


def _full_like(x: Tensor, value: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _full(x.shape, value, dtype or x.dtype)


def _ones_like(x: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _full(x.shape, 1.0, dtype or x.dtype)


def _scalar_tensor(value: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _full((), value, dtype)


# --- elementwise --------------------------------------------------------------------------------


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
    return _in(1.0, z.dtype) / z


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
    return _in(x, dtype), _in(y, dtype)


def _where(condition: Tensor, x: Any, y: Any) -> Tensor:
    ours, theirs = _both(x, y)
    return _of_pairs(torch.where(condition.unsqueeze(-1), _pairs(ours), _pairs(theirs)))


def _masked(z: Tensor, mask: Tensor, value: Any) -> Tensor:
    return _where(mask, _complex(value, z), z)


def _all_parts(test: Formula, join: Formula) -> Formula:
    return lambda z: join(test(z.real), test(z.imag))


# --- products and sums --------------------------------------------------------------------------


def _product(multiply: Formula) -> Formula:
    """Of four real products."""

    def formula(x: Tensor, y: Tensor) -> Tensor:
        real = multiply(x.real, y.real) - multiply(x.imag, y.imag)
        return torch.complex(real, multiply(x.real, y.imag) + multiply(x.imag, y.real))

    return formula


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(0)


def _vdot(x: Tensor, y: Tensor) -> Tensor:
    return (x.conj() * y).sum(0)


def _dims(z: Tensor, dims: Sequence[int] | int | None) -> list[int]:
    chosen = range(z.dim()) if dims is None or dims == [] else dims
    return [dim % max(z.dim(), 1) for dim in ([chosen] if isinstance(chosen, int) else chosen)]


def _sum(
    z: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    wide = z if dtype is None else z.to(dtype)
    return _of_pairs(_pairs(wide).sum(_dims(z, dims), keepdim)) if z.dim() else wide


def _sum_all(z: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _sum(z, dtype=dtype)


def _mean(
    z: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    wide = z if dtype is None else z.to(dtype)
    return _of_pairs(_pairs(wide).mean(_dims(z, dims), keepdim)) if z.dim() else wide


def _mean_all(z: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _mean(z, dtype=dtype)


def _norm(
    z: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    real = None if dtype is None else _part_type(dtype)
    found: Tensor = torch.linalg.vector_norm(z.abs(), ord, dim, keepdim, dtype=real)
    return found


# --- moves --------------------------------------------------------------------------------------


def _each_part(operator: Formula) -> Formula:
    """What moves elements without a look at them."""

    def formula(z: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return torch.complex(operator(z.real, *args, **kwargs), operator(z.imag, *args, **kwargs))

    return formula


def _copied(z: Tensor, source: Any, *_: Any) -> Tensor:
    return _complex(source, z).expand(z.shape)


def _slice_written(z: Tensor, source: Tensor, dim: int = 0, *span: Any) -> Tensor:
    made = _pairs(_complex(source, z))
    return _of_pairs(torch.slice_scatter(_pairs(z), made, dim % z.dim(), *span))


def _select_written(z: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    made = _pairs(_complex(source, z))
    return _of_pairs(torch.select_scatter(_pairs(z), made, dim % z.dim(), index))


def _diagonal_written(z: Tensor, source: Tensor, *places: int) -> Tensor:
    given = _complex(source, z)
    pairs = zip((z.real, z.imag), (given.real, given.imag), strict=True)
    return torch.complex(*(torch.diagonal_scatter(x, y, *places) for x, y in pairs))


def _put(z: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    made = _pairs(_complex(values, z))
    return _of_pairs(torch.index_put(_pairs(z), indices, made, accumulate))


def _several(operator: Formula, default: int = 0) -> Formula:
    """Parts of a tensor along a dimension."""

    def formula(z: Tensor, *args: Any) -> list[Tensor]:
        *given, dim = (*args, default) if len(args) == _leading(operator) else args
        return [_of_pairs(part) for part in operator(_pairs(z), *given, dim % z.dim())]

    return formula


def _leading(operator: Formula) -> int:
    """The number of arguments between the tensor and the dimension."""
    return 0 if operator is torch.unbind else 1


FORMULAS: Mapping[str, Formula] = {
    "aten.zeros.default": _zeros,
    "aten.empty.memory_format": _zeros,
    "aten.ones.default": _ones,
    "aten.full.default": _full,
    "aten.zeros_like.default": _zeros_like,
    "aten.empty_like.default": _zeros_like,
    "aten.ones_like.default": _ones_like,
    "aten.full_like.default": _full_like,
    "aten.scalar_tensor.default": _scalar_tensor,
    "aten.exp.default": _exp,
    "aten.log.default": _log,
    "aten.sqrt.default": _sqrt,
    "aten.rsqrt.default": _rsqrt,
    "aten.sin.default": _sin,
    "aten.cos.default": _cos,
    "aten.sinh.default": _sinh,
    "aten.cosh.default": _cosh,
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
    "prims.conj_physical.default": torch.conj,
    "aten.mm.default": _product(torch.mm),
    "aten.bmm.default": _product(torch.bmm),
    "aten.dot.default": _dot,
    "aten.vdot.default": _vdot,
    "aten.sum.default": _sum_all,
    "aten.sum.dim_IntList": _sum,
    "aten.mean.default": _mean_all,
    "aten.mean.dim": _mean,
    "aten.linalg_vector_norm.default": _norm,
    "aten.cumsum.default": _each_part(torch.cumsum),
    "aten.gather.default": _each_part(torch.gather),
    "aten.triu.default": _each_part(torch.triu),
    "aten.tril.default": _each_part(torch.tril),
    "aten.diagonal.default": _each_part(torch.diagonal),
    "aten.repeat.default": _each_part(Tensor.repeat),
    "aten.copy.default": _copied,
    "aten.slice_scatter.default": _slice_written,
    "aten.select_scatter.default": _select_written,
    "aten.diagonal_scatter.default": _diagonal_written,
    "aten.index_put.default": _put,
    "aten.split.Tensor": _several(torch.split),
    "aten.split_with_sizes.default": _several(torch.split),
    "aten.unbind.int": _several(torch.unbind),
}
