"""Spelled-out gelu becomes the operator; what is only near to it stays."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.schedule.programs import scheduled

ROOT = math.sqrt(2.0 / math.pi)


class Spelled(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x * y)


def text(function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> str:
    x = torch.zeros(4, 8, dtype=dtype)
    return str(scheduled(Spelled(function), x, x).schedule)


SPELLINGS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], ...]] = {
    "gelu(": (
        lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: 0.5 * x * (torch.erf(x * 0.70710678) + 1),
        lambda x: x * (0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))),
        lambda x: (x * (1.0 + torch.erf(x / 1.41421356))) * 0.5,
    ),
    "gelu_tanh(": (
        lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * (x * x * x * 0.044715 + x))),
        lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3))),
    ),
}


@pytest.mark.parametrize(
    ("name", "spelling"), [(n, f) for n, functions in SPELLINGS.items() for f in functions]
)
def test_spellings(name: str, spelling: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert name in text(spelling, torch.bfloat16)
    assert name in text(spelling, torch.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0.5 * (1.0 + torch.erf(x / 1.5)),
        lambda x: x * 0.6 * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: (x + 1) * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.04 * x**3))),
        lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * x**2))),
    ],
)
def test_others_stay(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shown = text(function, torch.float32)
    assert "gelu(" not in shown and "gelu_tanh(" not in shown


def test_float64_keeps_its_constants() -> None:
    assert "gelu(" not in text(SPELLINGS["gelu("][0], torch.float64)
