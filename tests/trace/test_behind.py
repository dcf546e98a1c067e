"""Conditions on sizes that a model asks for only where another size is 1."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

Function = Callable[..., torch.Tensor]


class Calls(nn.Module):
    """A function of the input, and of a layer."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.layer = function, nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def a_long_row(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] > 512 else x * 2


def one_length(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] == 37 else x * 2


def the_other_way(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] > 1:
        return x * 2
    return x * 3 if x.shape[0] % 9 == 0 else x * 2


def behind_two(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1:
        x = x * 1
        if x.shape[1] == 1 and x.shape[2] == 11:
            return x * 3
    return x * 2


def together(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] * x.shape[1] == 1 and x.shape[2] == 11 else x * 2


def how_it_lies(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.mT.is_contiguous() and x.shape[2] == 11 else x * 2


def behind_a_layer(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x.mean(2, keepdim=True) * torch.ones(4))[0].sum()
    return y + (x * 3 if x.shape[0] == 1 and x.shape[1] == 37 else x * 2)


WRONG = {
    "a long row": (a_long_row, "where B=1, T=513"),
    "one length": (one_length, "where B=1, T=37"),
    "the other way": (the_other_way, "where B=9, T=1"),
    "behind two": (behind_two, "where B=1, T=1, C=11"),
    "together": (together, "where B=1, T=1, C=11"),
    "how it lies": (how_it_lies, "where B=.*T=1, C=11"),
    "behind a layer": (behind_a_layer, "where B=1, T=37"),
}


def given(least: int) -> dict[str, Any]:
    dims = {0: Dim("B", min=least, max=40), 1: Dim("T", min=least, max=900)}
    return {"dynamic_shapes": {"x": {**dims, 2: Dim("C", min=least, max=16)}}}


@pytest.mark.parametrize(("function", "words"), WRONG.values(), ids=WRONG)
def test_another_function_behind_a_size_of_one(function: Function, words: str) -> None:
    model, x = Calls(function), torch.randn(3, 8, 5)
    with pytest.raises(TraceError, match=f"gives another function than the model: {words}"):
        aotpack.compile(model, (x,), target="interpreter", **given(1))
    assert aotpack.compile(model, (x,), target="interpreter", **given(2))


def the_same(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1 and x.shape[1] > 37:
        return x + x
    return x * 2


def an_error_elsewhere(self: Calls, x: torch.Tensor) -> torch.Tensor:
    """Of fake tensors alone: what cannot be seen is no reason to refuse."""
    if x.shape[0] == 1:
        x.detach().numpy()
    return x * 2


@pytest.mark.parametrize("function", [the_same, an_error_elsewhere])
def test_the_same_function_is_accepted(function: Function) -> None:
    model = Calls(function)
    package = aotpack.compile(model, (torch.randn(3, 8, 5),), target="interpreter", **given(1))
    for shape in ((1, 38, 3), (1, 2, 1), (4, 7, 2)):
        x = torch.randn(shape)
        assert torch.equal(package(x), x * 2)
