"""Kernels that are neither Triton's nor ours, such as CUDA C++: refused, with what is accepted."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.errors import AotpackError

from .models import Function

X = torch.ones(3)

# An extension in CUDA C++ registers its operators so, and what runs is not Python's to see.
torch.library.define("aot_cuda_extension::scale", "(Tensor x, float by) -> Tensor")
torch.library.impl("aot_cuda_extension::scale", "default", lambda x, by: x * by)
torch.library.register_fake("aot_cuda_extension::scale", lambda x, by: torch.empty_like(x))
for name in ("scale_", "known_"):
    torch.library.define(f"aot_cuda_extension::{name}", "(Tensor(a!) x, float by) -> ()")
    torch.library.impl(
        f"aot_cuda_extension::{name}", "default", lambda x, by: (x.mul_(by), None)[1]
    )
    torch.library.register_fake(f"aot_cuda_extension::{name}", lambda x, by: None)


def as_operator(x: Tensor) -> Tensor:
    return torch.ops.aot_cuda_extension.scale(x, 2.0) + 1


def in_place(x: Tensor) -> Tensor:
    y = x + 1
    torch.ops.aot_cuda_extension.scale_(y, 2.0)
    return y


def by_address(x: Tensor) -> Tensor:
    """As cuda-python launches, or a function of a shared library is called."""
    y = torch.empty_like(x)
    ctypes.memmove(y.data_ptr(), x.data_ptr(), 12)
    return y


def by_dlpack(x: Tensor) -> Tensor:
    """As CuPy takes tensors of other libraries."""
    return torch.from_dlpack(np.from_dlpack(x) * 2)


def by_array(x: Tensor) -> Tensor:
    return torch.from_numpy(np.asarray(x) * 2)


class Interface(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + len(x.__cuda_array_interface__)


@pytest.mark.row("S:G5")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (as_operator, r"aot_cuda_extension.scale.default.*register_lowering\('aot_cuda"),
        (in_place, r"aot_cuda_extension.scale_.default.*aotpack.register_lowering"),
        (by_address, r"memory \(CUDA C\+\+.*torch.library.triton_op(.|\n)*memmove"),
        (by_dlpack, r"memory \(CUDA C\+\+.*torch.library.triton_op(.|\n)*np.from_dlpack"),
        (by_array, r"numpy computes in no package: write the functions of torch(.|\n)*np.asarray"),
        (lambda x: Interface()(x), r"memory \(CUDA C\+\+.*triton_op(.|\n)*cuda_array_interface"),
    ],
)
def test_what_is_no_triton_kernel(function: Callable[[Tensor], Tensor], words: str) -> None:
    with pytest.raises(AotpackError, match=words) as caught:
        aotpack.compile(Function(function, 1), (X,), target="interpreter")
    assert "torch.library.triton_op" in str(caught.value)


@pytest.mark.row("S:G5")
def test_one_that_says_what_it_computes() -> None:
    @aotpack.register_lowering("aot_cuda_extension::known_")
    def known(x: Tensor, by: float) -> None:
        x.mul_(by)

    def forward(x: Tensor) -> Tensor:
        y = x + 1
        torch.ops.aot_cuda_extension.known_(y, 2.0)
        return y

    model = aotpack.compile(Function(forward, 1), (X,), target="cpu")
    torch.testing.assert_close(model(X), X * 4)
