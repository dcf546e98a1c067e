"""Reference implementations for operators that cannot serve as their own float64 reference.

Some reject float64, or read less than they are given. Others do not define which of equal elements
they return: a package returns the first in a stable order, and for mode the last of the most
frequent.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from aotpack.trace.golden.exceptional import EXCEPTIONAL
from aotpack.trace.golden.incomplete_gamma import INCOMPLETE_GAMMA

_ATEN = torch.ops.aten
_FAR = 2**20  # as an exponent, beyond all floats


def _scaled_product(
    a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, *_: Any, **__: Any
) -> Any:
    product = a @ b * scale_a * scale_b
    return product if bias is None else product + bias


def _grouped_product(x: Any, matrices: Any, offs: Any = None, *_: Any) -> Any:
    if offs is None:
        return x @ matrices
    product, start = x.new_zeros(x.shape[0], matrices.shape[-1]), 0
    for end, matrix in zip(offs.tolist(), matrices, strict=True):
        product[start:end] = x[start:end] @ matrix
        start = end
    return product


def _scaled(x: Any, exponent: Any) -> Any:
    """Reads all of an exponent; eager takes its last 32 bits."""
    if not exponent.is_floating_point() and exponent.dtype is not torch.bool:
        exponent = exponent.long().clamp(-_FAR, _FAR)
    return torch.ldexp(x, exponent)


def _sorted(x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    return torch.sort(x, dim=dim, descending=descending, stable=True)


def _order(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return torch.argsort(x, dim=dim, descending=descending, stable=True)


def _first(x: Any, k: int, dim: int = -1, largest: bool = True, *_: Any) -> Any:
    return [part.index_select(dim, torch.arange(k)) for part in _sorted(x, dim, largest)]


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _picked(x, torch.full_like(_numbers(x, dim), k - 1), dim, keepdim)


def _median(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower of two middle elements; the first NaN if there is one."""
    numbers, size = _numbers(x, dim), x.size(dim) if x.dim() else 1
    return _picked(x, torch.where(numbers == size, (size - 1) // 2, numbers), dim, keepdim)


def _nanmedian(x: Any, dim: int, keepdim: bool = False) -> Any:
    return _picked(x, (_numbers(x, dim) - 1).clamp(min=0) // 2, dim, keepdim)


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The end of the longest run in a stable order; the first of these. A NaN is a run of its own,
    which eager's sort does not keep.
    """
    if not x.dim():
        return torch.mode(x, dim, keepdim)
    values, order = torch.sort(x, dim=dim, stable=True)
    places = torch.ones_like(order).cumsum(dim) - 1
    begins = (values != values.roll(1, dim)) & (places > 0)
    starts = torch.where(begins, places, 0).cummax(dim).values
    best = (places - starts).argmax(dim, keepdim=True)
    found = [part.gather(dim, best) for part in (values, order)]
    return [part if keepdim else part.squeeze(dim) for part in found]


def _numbers(x: Any, dim: int) -> Any:
    """The number of elements of each row that are not NaN; keeps the dimension."""
    return (x == x).sum(dim, keepdim=True)


def _picked(x: Any, place: Any, dim: int, keepdim: bool) -> Any:
    """The element at a position of each sorted row, and its index in the source."""
    found = [part.gather(dim, place) for part in _sorted(x, dim)]
    return [part if keepdim else part.squeeze(dim) for part in found]


MEANINGS: Mapping[Any, Callable[..., Any]] = {
    _ATEN._scaled_mm.default: _scaled_product,
    _ATEN._grouped_mm.default: _grouped_product,
    _ATEN.ldexp.Tensor: _scaled,
    _ATEN.sort.default: _sorted,
    _ATEN.sort.stable: _sorted,
    _ATEN.argsort.default: _order,
    _ATEN.topk.default: _first,
    _ATEN.kthvalue.default: _kth,
    _ATEN.median.dim: _median,
    _ATEN.nanmedian.dim: _nanmedian,
    _ATEN.mode.default: _mode,
    **EXCEPTIONAL,
    **INCOMPLETE_GAMMA,
}
