"""Numbers that are read from tensors (``.item()``) are tensors without dimensions."""

from typing import Any

import pytest
import torch

import aotpack
from aotpack.errors import AotpackError

from .models import Function
from .oracle import agree, compile_all

X = torch.arange(1.0, 13.0).reshape(4, 3)
PLACES = torch.arange(12, dtype=torch.int32).reshape(4, 3)


def floats(x: torch.Tensor, i: torch.Tensor) -> Any:
    total, mean = x.sum().item(), i.to(x.dtype).mean().item()
    return x * total, 1 - total * 2 - x, x.clamp(max=mean), x / mean, torch.where(x > 3, x, mean)


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
        (lambda x, i: torch.full((3,), x.sum().item()), "'fill_value' is data, a number .* tensor"),
        (lambda x, i: (x, x.sum().item()), "the result has a number that depends on a size"),
        (lambda x, i: x * (1 / x.sum().item()), "of numbers that are data, these are computed"),
        (lambda x, i: x * (x.sum().item() % 2), "mod of a float is not computed"),
    ],
)
def test_refuses(function: Any, message: str) -> None:
    with pytest.raises(AotpackError, match=message):
        aotpack.compile(Function(function, 2), (X, PLACES), target="cpu")
