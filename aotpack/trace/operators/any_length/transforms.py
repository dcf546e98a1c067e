"""Fourier transforms beside dynamic sizes: along the last dimensions.

Of others torch takes the example's order of strides. A given length pads or cuts any size.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from aotpack.errors import TraceError
from aotpack.trace.operators.any_length.declared import is_declared

_Function = Callable[..., Any]
_NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_PLANE = (-2, -1)


def _of_one(name: str) -> _Function:
    plain: _Function = getattr(torch.fft, name)

    def made(
        input: torch.Tensor, n: Any = None, dim: int = -1, norm: Any = None, **options: Any
    ) -> Any:
        _check_length(name, "n", n)
        if not _is_taken(input, [dim]) or options:
            return plain(input, n, dim, norm, **options)
        return _transformed(plain, input, [n], [dim], norm, name)

    return made


def _of_several(name: str, default: Sequence[int] | None) -> _Function:
    plain: _Function = getattr(torch.fft, name)

    def made(
        input: torch.Tensor, s: Any = None, dim: Any = default, norm: Any = None, **options: Any
    ) -> Any:
        for length in s if isinstance(s, (tuple, list)) else ():
            _check_length(name, "s", length)
        dims = dim
        if dim is None:
            dims = range(-(input.dim() if s is None else len(s)), 0)
        if not _is_taken(input, dims) or options or (s is not None and len(s) != len(dims)):
            return plain(input, s, dim, norm, **options)
        return _transformed(plain, input, s, dims, norm, name)

    return made


def _check_length(name: str, argument: str, length: Any) -> None:
    """Refuse a dynamic length, before torch asks whether it pads or cuts."""
    if is_declared(length):
        raise TraceError(
            f"the length of a Fourier transform is dynamic ({argument}= of torch.fft.{name}); "
            f"fixed lengths are accepted: give a number as {argument}=, which pads or cuts, or "
            "transform along a dimension of fixed length"
        )


def _is_taken(x: torch.Tensor, dims: Sequence[int]) -> bool:
    """True beside dynamic sizes, of dimensions that torch does not refuse."""
    is_dynamic = any(isinstance(size, torch.SymInt) for size in x.shape)
    in_range = all(-x.dim() <= dim < x.dim() for dim in dims)
    return is_dynamic and in_range and 0 < len({dim % x.dim() for dim in dims}) == len(dims)


def _transformed(
    plain: _Function, x: torch.Tensor, lengths: Any, dims: Sequence[int], norm: Any, name: str
) -> Any:
    places = [dim % x.dim() for dim in dims]
    for dim, length in zip(places, lengths or (), strict=False):
        is_half = name.startswith(("irfft", "hfft")) and dim == places[-1]
        if isinstance(x.shape[dim], torch.SymInt) and type(length) is int and length > 0:
            x = _resized(x, dim, length // 2 + 1 if is_half else length)
    last = [*range(x.dim() - len(places), x.dim())]
    if places != last:
        x = x.movedim(places, last).clone(memory_format=torch.contiguous_format)
    found = plain(x, *((lengths[0], -1) if name in _NAMES else (lengths, last)), norm)
    return found if places == last else found.movedim(last, places)


def _resized(x: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    """The first elements along a dimension, with zeros behind them."""
    shape = [count if place == dim else size for place, size in enumerate(x.shape)]
    return torch.cat([x, x.new_zeros(shape)], dim).narrow(dim, 0, count)


TRANSFORMS: Mapping[_Function, _Function] = {
    **{getattr(torch.fft, name): _of_one(name) for name in _NAMES},
    **{getattr(torch.fft, f"{name}2"): _of_several(f"{name}2", _PLANE) for name in _NAMES},
    **{getattr(torch.fft, f"{name}n"): _of_several(f"{name}n", None) for name in _NAMES},
}
