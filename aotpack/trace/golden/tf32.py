"""Eager with the float32 factors of products cut to tf32, as matrix units of GPUs take them.

A tf32 has the exponent of a float32 and 10 bits of mantissa (NVIDIA, "NVIDIA A100 Tensor Core GPU
Architecture", 2020). Sums stay float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

_FACTORS = {  # the place of the first factor; the other one follows
    **dict.fromkeys("_grouped_mm bmm convolution dot linear mm mv vdot".split(), 0),
    **dict.fromkeys("addbmm addmm addmv baddbmm".split(), 1),
}
_DROPPED = 13  # bits of a float32's mantissa


@contextmanager
def tf32_products() -> Iterator[None]:
    """Products of float32 factors are those of tf32 factors; attention is made of products."""
    with sdpa_kernel(SDPBackend.MATH), _Tf32():  # type: ignore[no-untyped-call]
        yield


class _Tf32(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        first = _FACTORS.get(func._opname)
        if first is not None:
            factors = map(_cut, args[first : first + 2])
            args = (*args[:first], *factors, *args[first + 2 :])
        return func(*args, **(kwargs or {}))


def _cut(factor: torch.Tensor) -> torch.Tensor:
    """The factor without the bits that tf32 lacks; NaN and infinity as they are."""
    if factor.dtype is not torch.float32:
        return factor
    cut = (factor.view(torch.int32) >> _DROPPED << _DROPPED).view(torch.float32)
    return torch.where(factor.isfinite(), cut, factor)
