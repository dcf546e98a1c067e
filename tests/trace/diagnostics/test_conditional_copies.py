"""Views for some sizes and copies for others: a change in place of either is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

X = torch.arange(1.0, 25.0).reshape(3, 8)


class Called(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("rows", torch.zeros(3, 8))

    def forward(self, x: Tensor, k: Tensor) -> Any:
        return self.function(self, x.clone(), k)


def length(k: Tensor) -> int:
    """A number of the first columns."""
    n = k.item()
    torch._check(n >= 0)
    torch._check(n <= 8)
    return n


def changed(part: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    def function(self: Called, x: Tensor, k: Tensor) -> Tensor:
        part(x, length(k)).add_(100)
        return x

    return function


def of_state(self: Called, x: Tensor, k: Tensor) -> Tensor:
    self.rows[:, : length(k)].reshape(-1).add_(x.sum())
    return self.rows.sum(1)


def of_the_base(self: Called, x: Tensor, k: Tensor) -> Tensor:
    flat = x[:, : length(k)].reshape(-1)
    x.add_(100)
    return flat


def of_what_a_change_returns(self: Called, x: Tensor, k: Tensor) -> Tensor:
    same = x.mul_(2)
    flat = x[:, : length(k)].reshape(-1)
    same.add_(100)
    return flat


def of_several(self: Called, x: Tensor, k: Tensor) -> Tensor:
    flat = x[:, : length(k)].reshape(-1)
    torch._foreach_add_([x, self.rows], 100)
    return flat


def of_a_selection(self: Called, x: Tensor, k: Tensor) -> Tensor:
    rows = x[x[:, 0] > 9]
    rows.t().reshape(-1).add_(100)
    return rows


REFUSED: dict[str, Callable[..., Any]] = {
    "reshape": changed(lambda x, n: x[:, :n].reshape(-1)),
    "contiguous": changed(lambda x, n: x[:, :n].contiguous()),
    "flatten": changed(lambda x, n: x[:, :n].flatten()),
    "rows": changed(lambda x, n: x[:n].t().contiguous()),
    "rest": changed(lambda x, n: x[:, n:].reshape(-1)),
    "narrow": changed(lambda x, n: x.narrow(1, 0, n).contiguous()),
    "part of it": changed(lambda x, n: x[:, :n].contiguous()[0]),
    "state": of_state,
    "base": of_the_base,
    "selection": of_a_selection,
    "what a change returns": of_what_a_change_returns,
    "several": of_several,
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_a_change_of_what_may_be_a_view(function: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match=r"(?s)a view for some sizes and a copy .*\.clone\(\)"):
        aotpack.compile(Called(function), (X, torch.tensor(3)), target="cpu")


def test_a_slice_that_begins_at_a_computed_place() -> None:
    class Tail(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x = x.clone()
            x[:, y.shape[0] - 4 :].contiguous().add_(100)
            return x

    with pytest.raises(TraceError, match=r"(?s)a view for some sizes and a copy .*\.clone\(\)"):
        shapes = (None, {0: Dim("rows", min=2, max=10)})
        aotpack.compile(Tail(), (X, torch.zeros(6)), dynamic_shapes=shapes, target="cpu")


def cloned(self: Called, x: Tensor, k: Tensor) -> Tensor:
    part = x[:, : length(k)].clone()
    part.reshape(-1).add_(100)
    return x.sum() + part.sum()


def whole_rows(self: Called, x: Tensor, k: Tensor) -> Tensor:
    rows = x[x[:, 0] > 9]
    rows.reshape(-1).add_(100)
    return rows


def read_alone(self: Called, x: Tensor, k: Tensor) -> Tensor:
    x.add_(100)
    return x[:, : length(k)].reshape(-1) * 2


@pytest.mark.parametrize("function", [cloned, whole_rows, read_alone])
def test_what_is_no_view_or_always_one(function: Callable[..., Any]) -> None:
    model = Called(function)
    package = aotpack.compile(model, (X, torch.tensor(3)), target="cpu")
    for k in (0, 1, 3, 8):
        wanted = model(X, torch.tensor(k))
        torch.testing.assert_close(package(X, torch.tensor(k)), wanted)
