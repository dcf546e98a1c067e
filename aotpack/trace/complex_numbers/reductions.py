"""Products, variances and truth of complex numbers.

Products are made of halves, running products of doubled distances (Hillis and Steele, 1986), so the
length is known.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotpack.errors import UnsupportedError

_SIZED = "a product of complex numbers along a size that may change; make it a fixed one"


def _length(z: Tensor, dim: int) -> int:
    size: Any = z.shape[dim]
    if not isinstance(size, int):
        raise UnsupportedError(_SIZED)
    return size


def prod(
    z: Tensor, dim: int = 0, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    made = z if dtype is None else z.to(dtype)
    if not z.dim():
        return made
    length = _length(z, dim)
    if not length:
        made = torch.ones_like(made).sum(dim, keepdim=True) + 1
    while length > 1:
        half = length // 2
        first, second = made.narrow(dim, 0, half), made.narrow(dim, half, half)
        rest = made.narrow(dim, 2 * half, length - 2 * half)
        made = torch.cat([first * second, rest], dim) if length % 2 else first * second
        length -= half
    return made if keepdim else made.squeeze(dim)


def prod_all(z: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return prod(z.reshape(-1), dtype=dtype)


def cumprod(z: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    made, step = z if dtype is None else z.to(dtype), 1
    length = _length(z, dim) if z.dim() else 1
    while step < length:
        first, rest = made.narrow(dim, 0, step), made.narrow(dim, step, length - step)
        before = made.narrow(dim, 0, length - step)
        made, step = torch.cat([first, rest * before], dim), 2 * step
    return made


def var(
    z: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variances of both parts together."""
    less = float(unbiased) if correction is None else correction
    real, imaginary = (
        torch.var(part, dim, correction=less, keepdim=keepdim) for part in (z.real, z.imag)
    )
    return real + imaginary


def var_all(z: Tensor, unbiased: bool = True) -> Tensor:
    return var(z, unbiased=unbiased)


def with_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def formula(
        z: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **options: Any
    ) -> tuple[Tensor, Tensor]:
        mean = torch.mean(z, dim, keepdim)
        return spread(z, dim, unbiased, keepdim, **options), mean

    return formula


def rooted(spread: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The deviation of a variance."""
    return lambda *args, **options: spread(*args, **options).sqrt()


def truth(x: Tensor, **_: Any) -> Tensor:
    """True where a number is not 0."""
    return (x.real != 0) | (x.imag != 0) if x.is_complex() else x != 0


def of_truth(test: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of bools."""

    def formula(*args: Any) -> Tensor:
        return test(*(truth(x) if isinstance(x, Tensor) else x for x in args))

    return formula


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.prod.default": prod_all,
    "aten.prod.dim_int": prod,
    "aten.cumprod.default": cumprod,
    "aten.var.default": var_all,
    "aten.var.dim": var,
    "aten.var.correction": var,
    "aten.std.default": rooted(var_all),
    "aten.std.dim": rooted(var),
    "aten.std.correction": rooted(var),
    "aten.var_mean.dim": with_mean(var),
    "aten.var_mean.correction": with_mean(var),
    "aten.std_mean.dim": with_mean(rooted(var)),
    "aten.std_mean.correction": with_mean(rooted(var)),
    **{
        f"aten.{name}.{form}": of_truth(test)
        for name, test in (("any", torch.any), ("all", torch.all))
        for form in ("default", "dim", "dims")
    },
    "aten.logical_not.default": of_truth(torch.logical_not),
    "aten.logical_and.default": of_truth(torch.logical_and),
    "aten.logical_or.default": of_truth(torch.logical_or),
    "aten.logical_xor.default": of_truth(torch.logical_xor),
    "aten._to_copy.default": truth,
}
