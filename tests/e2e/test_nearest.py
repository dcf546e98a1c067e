"""Rounded and limited numbers cast to integers, through every oracle, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.target import INTERPRETER

from .oracle import GPU, TARGETS, Compiled, agree, compile_all


class Codes(nn.Module):
    def __init__(self, body: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(x)


def is_added(compiled: Compiled) -> bool:
    return any("12582912.0" in kernel.text for kernel in compiled.precompiled.rendered.kernels)


def numbers(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Halves and their neighbours, limits, and what is far beyond them."""
    halves = torch.arange(-600, 601, dtype=torch.float32) / 2
    near = torch.cat([halves.nextafter(halves - 1), halves, halves.nextafter(halves + 1)])
    odd = torch.tensor([float("inf"), float("-inf"), 1e30, -1e30, 1e-40, -0.0, 2.0**23 + 1, 6e6])
    odd = torch.cat([odd, torch.tensor([1e-45, -1e-45])])  # denormal: up, down
    return torch.cat([near, odd]).to(dtype)


ADDITIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "int8": lambda x: x.round().clamp(-127, 127).to(torch.int8),
    "all of int8": lambda x: torch.clamp(torch.round(x), min=-128, max=127).to(torch.int8),
    "uint8": lambda x: x.round().clamp(0, 255).to(torch.uint8),
    "int16": lambda x: x.round().clamp(-300, 299).to(torch.int16),
    "int32": lambda x: x.round().clamp(-(2**22), 2**22).to(torch.int32),
    "limits that cross": lambda x: x.round().clamp(min=7).clamp(max=-7).to(torch.int8),
    "from minus zero": lambda x: x.round().clamp(-0.0, 99.0).to(torch.uint8),
    "by turns": lambda x: x.round().clamp(max=90).clamp(min=-90).clamp(max=100).to(torch.int8),
}


@pytest.mark.parametrize("case", ADDITIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_addition_rounds(case: str, dtype: torch.dtype) -> None:
    if dtype is torch.float16 and case == "int32":
        pytest.skip("its limits are no numbers of float16")
    x = numbers(dtype)
    compiled = compile_all(Codes(ADDITIONS[case]), (x,), targets=TARGETS)
    is_exact = dtype is not torch.bfloat16 or case not in ("int16", "int32")
    assert is_added(compiled) is is_exact
    agree(compiled, (x,))


CONVERSIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "no limits": lambda x: x.clamp(-90, 90).mul(0.3).round().to(torch.int8),
    "one limit": lambda x: x.clamp(max=90).round().clamp(min=-90).to(torch.int8),
    "limits between integers": lambda x: x.round().clamp(-90.5, 90.5).to(torch.int8),
    "limits beyond the sum's last place": lambda x: (
        x.round().clamp(-(2.0**22) - 1, 2.0**22 + 1).to(torch.int32)
    ),
    "not rounded": lambda x: x.clamp(-90, 90).to(torch.int8),
    "rounded down": lambda x: x.floor().clamp(-90, 90).to(torch.int8),
    "rounded up": lambda x: x.ceil().clamp(-90, 90).to(torch.int8),
    "wider": lambda x: x.double().round().clamp(-90, 90).to(torch.int8),
    "to 64 bits": lambda x: x.round().clamp(-90, 90).to(torch.int64),
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_others_are_converted(case: str) -> None:
    x = numbers()
    compiled = compile_all(Codes(CONVERSIONS[case]), (x,), targets=(INTERPRETER,))
    assert not is_added(compiled)
    agree(compiled, (x,))


def test_a_nan_is_zero() -> None:
    x = torch.full((4,), torch.nan)
    compiled = compile_all(Codes(ADDITIONS["int8"]), (x,), targets=(INTERPRETER,))
    assert is_added(compiled)
    for name, model in compiled.models.items():
        assert not bool(model(x.cuda() if name == GPU else x).any())
