"""Writes through windows (``unfold``) of a dynamic axis."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import UnsupportedError


class Written(nn.Module):
    """A copy of the input, whose windows a function changes."""

    def __init__(self, write: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor) -> Any:
        y = x.clone()
        found = self.write(y)
        return (y, *found) if isinstance(found, tuple) else y


def read_later(y: Tensor) -> tuple[Tensor, ...]:
    """Views show what is changed by others, before and after."""
    w = y.unfold(0, 2, 2)
    v = w[:, :, 0]
    v.add_(1)
    y.mul_(2)
    w.sub_(3)
    return w, v


def of_a_copy(y: Tensor) -> tuple[Tensor, ...]:
    return (torch.unfold_copy(y, 0, 3, 2).mul_(2),)


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "each element": lambda y: y.unfold(0, 2, 2).mul_(2),
    "with gaps": lambda y: y.unfold(0, 2, 3).neg_(),
    "with gaps of more than a window": lambda y: y.unfold(-2, 1, 4).fill_(7),
    "a part": lambda y: y.unfold(0, 2, 3)[:, 1].zero_(),
    "by an index": lambda y: y.unfold(0, 2, 2).__setitem__((slice(None), 0, 1), 5.0),
    "of windows": lambda y: y.unfold(0, 3, 4).unfold(2, 1, 2).neg_(),
    "transposed": lambda y: y.t().unfold(1, 2, 3).copy_(torch.ones(())),
    "by itself": lambda y: y.unfold(0, 2, 3).add_(y.unfold(0, 2, 3).flip(-1)),
    "read later": read_later,
    "of a copy": of_a_copy,
}


@pytest.mark.parametrize("name", WRITES)
def test_windows_that_share_nothing_are_changed(name: str) -> None:
    model = Written(WRITES[name])
    shapes = ({0: Dim("n", min=4, max=40)},)
    how: Any = {"dynamic_shapes": shapes, "target": "interpreter"}
    package = aotpack.compile(model, (torch.randn(12, 3),), **how)
    for size in (4, 5, 6, 7, 8, 11, 40):
        x = torch.randn(size, 3)
        ours, eager = package(x), model(x)
        pairs = zip(ours, eager, strict=True) if isinstance(eager, tuple) else [(ours, eager)]
        assert all(torch.equal(a, b) for a, b in pairs), size


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda y: y.unfold(0, 3, 2).mul_(2), r"aten\.mul_\.Tensor changes windows of 3 elements"),
        (lambda y: torch.mul(y[:2], 2, out=y.unfold(1, 3, 3)[:2, 0]), r"aten\.mul\.out changes"),
        (lambda y: torch._foreach_mul_([y.unfold(0, 2, 2)], 2), "Accepted is an operator in place"),
    ],
)
@pytest.mark.parametrize("shapes", [None, ({0: Dim("n", min=4, max=40)},)])
def test_other_changes_of_windows_are_refused(write: Any, words: str, shapes: Any) -> None:
    example = (torch.randn(12, 3),)
    with pytest.raises(UnsupportedError, match=rf"(?s){words}.*at test_windows.py:\d+: .*lambda"):
        aotpack.compile(Written(write), example, dynamic_shapes=shapes, target="interpreter")


def test_one_window_shares_nothing() -> None:
    model = Written(lambda y: y.unfold(0, 12, 1)[1:].mul_(2))
    x = torch.randn(12, 3)
    assert torch.equal(aotpack.compile(model, (x,), target="interpreter")(x), model(x))
