"""Operators of complex tensors as formulas in torch: of real and imaginary parts, or of pairs.

A formula takes the operator's arguments. What it calls is real, moves pairs, or has a lowering or a
formula itself.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aotpack.errors import UnsupportedError
from aotpack.trace.complex_numbers import reductions
from aotpack.trace.complex_numbers.elementwise import ELEMENTWISE, Formula
from aotpack.trace.complex_numbers.parts import like, of_pairs, pairs_of

# --- creation -----------------------------------------------------------------------------------


def _part_type(dtype: torch.dtype | None, *values: Any) -> torch.dtype | None:
    """The type of the parts of a complex type; None for torch's default type."""
    return None if dtype is None else torch.empty((), dtype=dtype, device="meta").real.dtype


def _zeros(size: Sequence[Any], dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return of_pairs(torch.zeros((*size, 2), dtype=_part_type(dtype)))


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
    return of_pairs(pairs_of(wide).sum(_dims(z, dims), keepdim)) if z.dim() else wide


def _sum_all(z: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _sum(z, dtype=dtype)


def _mean(
    z: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    wide = z if dtype is None else z.to(dtype)
    return of_pairs(pairs_of(wide).mean(_dims(z, dims), keepdim)) if z.dim() else wide


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
    return like(source, z).expand(z.shape)


def _slice_written(z: Tensor, source: Tensor, dim: int = 0, *span: Any) -> Tensor:
    made = pairs_of(like(source, z))
    return of_pairs(torch.slice_scatter(pairs_of(z), made, dim % z.dim(), *span))


def _select_written(z: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    made = pairs_of(like(source, z))
    return of_pairs(torch.select_scatter(pairs_of(z), made, dim % z.dim(), index))


def _diagonal_written(z: Tensor, source: Tensor, *places: int) -> Tensor:
    given = like(source, z)
    pairs = zip((z.real, z.imag), (given.real, given.imag), strict=True)
    return torch.complex(*(torch.diagonal_scatter(x, y, *places) for x, y in pairs))


def _put(z: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    made = pairs_of(like(values, z))
    return of_pairs(torch.index_put(pairs_of(z), indices, made, accumulate))


def _scattered(operator: Formula) -> Formula:
    """What writes another tensor or number by parts."""

    def formula(z: Tensor, *args: Any) -> Tensor:
        *places, source = args
        is_tensor = isinstance(source, Tensor)
        given: Any = like(source, z) if is_tensor else complex(source)
        real = operator(z.real, *places, given.real)
        return torch.complex(real, operator(z.imag, *places, given.imag))

    return formula


def _viewed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The parts of complex numbers as numbers in memory, or the other way."""
    if dtype is x.dtype:
        return x
    if x.is_complex() and dtype is x.real.dtype:
        return pairs_of(x).flatten(-2)
    if dtype.is_complex and dtype is torch.promote_types(x.dtype, torch.complex64):
        return of_pairs(x.reshape(*x.shape[:-1], -1, 2))
    raise UnsupportedError(f"a view of {x.dtype} as {dtype}; accepted: the type of the parts")


def _joined(operator: Formula) -> Formula:
    """Of tensors in the type of all."""

    def formula(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
        dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
        found: Tensor = operator([x.to(dtype) for x in tensors], dim)
        return found

    return formula


def _several(operator: Formula, default: int = 0) -> Formula:
    """Parts of a tensor along a dimension."""

    def formula(z: Tensor, *args: Any) -> list[Tensor]:
        *given, dim = (*args, default) if len(args) == _leading(operator) else args
        return [of_pairs(part) for part in operator(pairs_of(z), *given, dim % z.dim())]

    return formula


def _leading(operator: Formula) -> int:
    """The number of arguments between the tensor and the dimension."""
    return 0 if operator is torch.unbind else 1


FORMULAS: Mapping[str, Formula] = {
    **ELEMENTWISE,
    **reductions.FORMULAS,
    "aten.zeros.default": _zeros,
    "aten.empty.memory_format": _zeros,
    "aten.ones.default": _ones,
    "aten.full.default": _full,
    "aten.zeros_like.default": _zeros_like,
    "aten.empty_like.default": _zeros_like,
    "aten.ones_like.default": _ones_like,
    "aten.full_like.default": _full_like,
    "aten.scalar_tensor.default": _scalar_tensor,
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
    "aten.nan_to_num.default": _each_part(torch.nan_to_num),
    "aten.cat.default": _joined(torch.cat),
    "aten.stack.default": _joined(torch.stack),
    "aten.copy.default": _copied,
    "aten.slice_scatter.default": _slice_written,
    "aten.select_scatter.default": _select_written,
    "aten.diagonal_scatter.default": _diagonal_written,
    "aten.index_put.default": _put,
    "aten.scatter_add.default": _scattered(torch.scatter_add),
    "aten.scatter.src": _scattered(torch.scatter),
    "aten.scatter.value": _scattered(torch.scatter),
    "aten.masked_scatter.default": _scattered(torch.masked_scatter),
    "aten.index_fill.int_Scalar": _scattered(torch.index_fill),
    "aten.view.dtype": _viewed,
    "aten.split.Tensor": _several(torch.split),
    "aten.split_with_sizes.default": _several(torch.split),
    "aten.unbind.int": _several(torch.unbind),
}
