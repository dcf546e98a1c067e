"""What is a view for some sizes alone: a model that writes to it changes what it was given."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

Function = Callable[[Any, torch.Tensor], torch.Tensor]


class Calls(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("rows", torch.zeros(30, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def reshaped(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x.t().reshape(-1)
    y.mul_(2)
    return y.sum()


def one_column(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x[:, 1].contiguous().zero_() + 1


def flattened(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x.t().flatten().relu_() + 1


def without_other_values(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x.t().flatten().mul_(1) + 1


def a_buffer(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return self.rows[: x.shape[0]].t().reshape(-1).add_(x.sum()) * 1


def copied(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x.t().clone().reshape(-1).mul_(2) + 1


def at_all_sizes(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2).sum()


def every_buffer(self: Calls, x: torch.Tensor) -> torch.Tensor:
    self.rows.add_(x.sum())
    return self.rows[: x.shape[0]] * 1


def compiled(function: Function, low: int) -> Any:
    shapes = {"x": {0: Dim("n", min=low, max=30)}}
    x = torch.randn(6, 3)
    return aotpack.compile(Calls(function), (x,), target="interpreter", dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (reshaped, "x"),
        (one_column, "x"),
        (flattened, "x"),
        (without_other_values, "x"),
        (a_buffer, "rows"),
    ],
)
def test_a_view_for_a_size_of_one(function: Function, name: str) -> None:
    with pytest.raises(TraceError, match=f"where n_?=1, the model changes {name} in place"):
        compiled(function, 1)
    assert compiled(function, 2)


def test_a_view_for_a_computed_size_of_one() -> None:
    function: Function = lambda _, x: x[::2].reshape(-1).zero_() + 1  # noqa: E731
    with pytest.raises(TraceError, match="where n_?=2, the model changes x in place"):
        compiled(function, 2)
    assert compiled(function, 3)


@pytest.mark.parametrize("function", [copied, at_all_sizes, every_buffer])
def test_what_is_the_same_for_all_sizes(function: Function) -> None:
    model, package = Calls(function), compiled(function, 1)
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        given = x.clone()
        torch.testing.assert_close(package(given), model(x))
        assert torch.equal(given, x)
