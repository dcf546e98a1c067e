"""Refusals name sizes as the user does: no symbol of torch is told."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from aotpack.errors import TraceError

GIVEN = torch.randn(6, 5), torch.randn(6, 4)
SHAPES = {
    "x": {0: Dim("batch", min=2, max=9), 1: Dim("width", min=2, max=9)},
    "y": {0: Dim("rows", min=2, max=9), 1: Dim("cols", min=2, max=9)},
}
REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "broadcast": (lambda self, x, y: x.nonzero() + y, r"size of tensor b \(y\.shape\[1\]\)"),
    "product": (
        lambda self, x, y: x.nonzero() @ y,
        r"\[u0, 2\] X \[y\.shape\[0\], y\.shape\[1\]\]",
    ),
    "expanded": (lambda self, x, y: x.nonzero().expand(-1, y.shape[1]), r"2 -> y\.shape\[1\]!"),
    "text": (lambda self, x, y: x * float(str(x.shape[0])), r"float: 'x\.shape\[0\]'"),
    "equal": (lambda self, x, y: x * y[:, :1], "Declare one Dim for rows and batch, "),
    "factor": (lambda self, x, y: x @ y, "Declare one Dim for rows and width, "),
    "asked": (
        lambda self, x, y: x * 2 if x.shape[0] == y.shape[0] else y * 2,
        "Declare one Dim for rows and batch, ",
    ),
    "integer of a float": (
        lambda self, x, y: x * int(x.max().item()),
        r"an integer that is made of a float\.(.|\n)*x\.max\(\)\.trunc\(\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_are_named(trace_function, name):
    function, words = REFUSED[name]
    given = (GIVEN[0], torch.randn(5, 4)) if name == "factor" else GIVEN
    with pytest.raises(TraceError, match=words) as refused:
        trace_function(function, *given, dynamic_shapes=SHAPES)
    assert not re.search(r"\bz?[su]f?\d{2,}\b|torch suggests", str(refused.value))


def test_one_dim_for_two_sizes_is_accepted(trace_function):
    batch = Dim("batch", min=2, max=9)
    shapes = {"x": {**SHAPES["x"], 0: batch}, "y": {**SHAPES["y"], 0: batch}}
    assert trace_function(REFUSED["equal"][0], *GIVEN, dynamic_shapes=shapes)


def test_an_integer_of_a_float_as_told_is_accepted(trace_function):
    def forward(self, x, y):
        k = y.max().long().item()
        torch._check(k <= x.shape[0])
        torch._check(k >= 0)
        return x[:k] * x.max().trunc()

    assert trace_function(forward, GIVEN[0], GIVEN[1].abs(), dynamic_shapes=SHAPES)
