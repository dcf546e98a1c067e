"""Refusals name sizes as the user does: no symbol of torch is told."""

import importlib
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from aotpack.errors import TraceError, UnsupportedError
from aotpack.trace import trace

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
    "a number in data": (
        lambda self, x, y: x * 2 if x.sum().item() > 0 else x,
        r"the condition number > 0\.0\.",
    ),
    "an integer in data": (
        lambda self, x, y: x * int(x.max()),
        "data-dependent: an integer that is made of a float",
    ),
    "a remainder": (
        lambda self, x, y: x if x.nonzero().shape[0] % 2 == 0 else y,
        "the condition u0 % 2 is 0",
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


UNSUPPORTED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "bits": (lambda self, x, y: x.new_zeros(x.shape[0] & 3) + x.sum(), r"Bitwise.*\(.*batch.*\)"),
    "a number in data": (
        lambda self, x, y: torch.arange(0, x.max().item(), 0.5),
        r"a number that is computed from data \(number\)",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_sizes_in_arguments_are_named(trace_function, name):
    function, words = UNSUPPORTED[name]
    with pytest.raises(UnsupportedError, match=words) as refused:
        trace_function(function, *GIVEN, dynamic_shapes=SHAPES)
    assert not re.search(r"\bz?[su]f?\d{2,}\b|zuf", str(refused.value))


USERS = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        SYMBOL = x.reshape(7, -1)  # SYMBOL
        return SYMBOL * float(str(x.shape[0]))

class Raising(nn.Module):
    def forward(self, x):
        raise ValueError(f"SYMBOL is wrong for {x.shape[1]}")
"""


def test_names_of_the_user_stay(tmp_path, monkeypatch):
    """A variable, or a word of a message, that torch calls a size of the input."""
    given = {"dynamic_shapes": {"x": SHAPES["x"]}}
    same = type("Same", (torch.nn.Module,), {"forward": lambda self, x: x * 2})()
    (node,) = torch.export.export(same, GIVEN[:1], **given).graph.find_nodes(op="placeholder")
    symbol = str(node.meta["val"].shape[0])
    (tmp_path / "users_model.py").write_text(USERS.replace("SYMBOL", symbol))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("users_model")
    words = {
        "Model": rf"input of size x.shape.*x.shape(.|\n)* {symbol} = x.reshape.*# {symbol}$",
        "Raising": rf"ValueError: {symbol} is wrong for x.shape\[1\]\n.*f\"{symbol} is",
    }
    for name, told in words.items():
        with pytest.raises(TraceError, match=told):
            trace(getattr(module, name)(), GIVEN[:1], name="m", version="1", **given)
