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


class Squared(nn.Module):
    """A tensor of (m, 5), of (m, n), that is changed beside a reshape of its transpose."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x.clone())


def written(reshaped: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def function(y: Tensor) -> Tensor:
        reshaped(y).mul_(2)
        return y

    return function


def base_written(y: Tensor) -> Tensor:
    other = y.t().reshape(y.shape)
    y.mul_(3)
    return other + y


def base_read(y: Tensor) -> Tensor:
    y.mul_(3)
    return y.t().reshape(y.shape) + y


SQUARE = {
    "shape": written(lambda y: y.t().reshape(y.shape)),
    "three": written(lambda y: y[None].transpose(1, 2).reshape(1, *y.shape)),
    "like": written(lambda y: y.t().reshape_as(y)),
    "base": base_written,
}
M, N = Dim("m", min=2, max=40), Dim("n", min=2, max=30)


@pytest.mark.parametrize("sizes", [{0: M}, {0: M, 1: N}], ids=["one", "two"])
@pytest.mark.parametrize("function", SQUARE.values(), ids=SQUARE)
def test_a_reshape_that_is_a_view_of_a_square(
    function: Callable[[Tensor], Tensor], sizes: dict[int, Dim]
) -> None:
    model, x = Squared(function), torch.randn(6, 5)
    with pytest.raises(TraceError, match=r"(?s)where a tensor of .*(\d), \1\].*write \.clone\(\)"):
        aotpack.compile(model, (x,), dynamic_shapes=(sizes,), target="cpu")


def square_of_parts(y: Tensor) -> Tensor:
    return SQUARE["shape"](y[1:] + 1)


def square_of_copies(y: Tensor) -> Tensor:
    return SQUARE["shape"](torch.cat([y, y]) + 1)


def square_of_squares(y: Tensor) -> Tensor:
    return SQUARE["shape"](y.new_zeros(y.shape[0] * y.shape[0], y.shape[1]) + y.sum())


@pytest.mark.parametrize(
    ("function", "shape", "ranges"),
    [
        (square_of_parts, (20, 60), [(3, 512)]),
        (square_of_copies, (20, 300), [(2, 512)]),
        (square_of_squares, (5, 9), [(2, 64), (2, 64)]),
        (SQUARE["shape"], (150, 260), [(100, 200), (200, 400)]),
        (SQUARE["shape"], (15, 26), [(2, 4000), (2, 4000)]),  # too many to tell
    ],
)
def test_a_reshape_that_is_a_view_of_a_far_square(
    function: Callable[[Tensor], Tensor], shape: tuple[int, int], ranges: list[tuple[int, int]]
) -> None:
    spans = zip("mn", ranges, strict=False)
    sizes = {axis: Dim(name, min=a, max=b) for axis, (name, (a, b)) in enumerate(spans)}
    model, x = Squared(function), torch.randn(shape)
    with pytest.raises(TraceError, match=r"(?s)a view for some sizes .* write \.clone\(\)"):
        aotpack.compile(model, (x,), dynamic_shapes=(sizes,), target="cpu")


def read_before(y: Tensor) -> Tensor:
    twice = y.t().reshape(y.shape) * 2
    y.mul_(3)
    return twice + y


def result_alone(y: Tensor) -> Tensor:
    return y.t().reshape(y.shape).mul_(2) + 1


@pytest.mark.parametrize("function", [base_read, read_before, result_alone, SQUARE["shape"]])
def test_a_reshape_whose_way_does_not_matter(function: Callable[[Tensor], Tensor]) -> None:
    first = 6 if function is SQUARE["shape"] else 2
    sizes = ({0: Dim("m", min=first, max=40)},)
    model = Squared(function)
    package = aotpack.compile(model, (torch.randn(7, 5),), dynamic_shapes=sizes, target="cpu")
    for m in (first, 5, 6, 10, 25, 40):
        if m >= first:
            x = torch.randn(m, 5)
            torch.testing.assert_close(package(x), model(x))
