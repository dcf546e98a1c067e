"""Numbers that are read from tensors (``.item()``) are tensors without dimensions."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import aotpack
from aotpack.errors import AotpackError

from .models import Function
from .oracle import agree, compile_all

X = torch.arange(1.0, 13.0).reshape(4, 3)
PLACES = torch.arange(12, dtype=torch.int32).reshape(4, 3)


def floats(x: torch.Tensor, i: torch.Tensor) -> Any:
    total, mean = x.sum().item(), i.to(x.dtype).mean().item()
    divided = x * (1 / mean), torch.full((3,), total), torch.add(x, x, alpha=mean)
    clamped = x.clamp(max=mean), torch.where(x > 3, x, mean)
    return x * total, 1 - total * 2 - x, x / mean, *clamped, *divided


def integers(x: torch.Tensor, i: torch.Tensor) -> Any:
    total, first = i.sum().item(), i[0, 1].item()
    return x + total, i * total, i // (first + 1), i.to(torch.int8) + total, (x > 3) + total


def flags(x: torch.Tensor, i: torch.Tensor) -> Any:
    return torch.where(x > 3, (x > 0).all().item(), x > 5), x[i[0, 1].item()]


@pytest.mark.row("S:H25")
@pytest.mark.parametrize("function", [floats, integers, flags], ids=lambda f: f.__name__)
def test_targets_agree(function: Any) -> None:
    compiled = compile_all(Function(function, 2), (X, PLACES))
    agree(compiled, (X, PLACES))
    agree(compiled, (X - 3, PLACES.flip(1)))


@pytest.mark.row("S:H25")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x, i: F.leaky_relu(x, x.sum().item()),
            "'negative_slope' is data, a number",
        ),
        (
            lambda x, i: (x, x.sum().item()),
            r"the result has a number that is read from a tensor, .* \(\[1\]\)",
        ),
        (
            lambda x, i: x * math.floor(x.sum().item()),
            "of numbers that are data, these are",
        ),
        (lambda x, i: x * (x.sum().item() % 2), "mod of a float is not computed"),
    ],
)
def test_refuses(function: Any, message: str) -> None:
    with pytest.raises(AotpackError, match=message):
        aotpack.compile(Function(function, 2), (X, PLACES), target="cpu")
