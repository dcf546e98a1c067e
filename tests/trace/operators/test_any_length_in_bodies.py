"""Functions of any length inside of branches and loops, which torch reads with dynamo."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

Function = Callable[[Tensor], Any]

FUNCTIONS: dict[str, Function] = {
    "linspace": lambda x: x + torch.linspace(0, 1, x.shape[1]),
    "window": lambda x: x * torch.hann_window(x.shape[1]),
    "frequencies": lambda x: x * torch.fft.fftfreq(x.shape[1]),
    "halves": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "parts of its size": lambda x: torch.cat([x, -x], 1).split(x.shape[1], 1)[1] * 2,
    "places": lambda x: torch.take_along_dim(x, x.argsort(-1), -1),
    "pool": lambda x: x - F.max_pool1d(x, 2, 1, 1)[:, 1:],
    "quantile": lambda x: x + torch.quantile(x, 0.25, dim=1, keepdim=True),
}


class Branching(nn.Module):
    """A function in a branch, and in eager's place of one."""

    def __init__(self, function: Function, is_eager: bool) -> None:
        super().__init__()
        self.function, self.is_eager = function, is_eager

    def forward(self, x: Tensor) -> Any:
        if self.is_eager:
            return self.function(x) if x.sum() > 0 else self.function(x * 3)
        function = self.function
        return torch.cond(x.sum() > 0, lambda y: function(y), lambda y: function(y * 3), (x,))


class Looping(nn.Module):
    """A function in the body of a loop, and in eager's place of one."""

    def __init__(self, function: Function, is_eager: bool) -> None:
        super().__init__()
        self.function, self.is_eager = function, is_eager

    def forward(self, x: Tensor) -> Any:
        if self.is_eager:
            return self.function(self.function(x))
        function, start = self.function, torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, function(y)), (start, x))[1]


SHAPES = ({0: Dim("rows", min=1, max=9), 1: Dim("columns", min=2, max=9)},)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", [Branching, Looping])
def test_bodies_take_all_lengths(name: str, form: Callable[[Function, bool], nn.Module]) -> None:
    function = FUNCTIONS[name]
    model, eager = form(function, False), form(function, True)
    options = {"dynamic_shapes": SHAPES, "target": "interpreter"}
    with aotpack.compile(model, (torch.randn(4, 6),), **options) as package:
        for shape in ((1, 2), (4, 6), (2, 3), (9, 9)):
            for x in (torch.rand(shape), -torch.rand(shape)):
                torch.testing.assert_close(package(x), eager(x))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x * torch.combinations(x[0], 3).sum(), "3 of a dynamic number of elements"),
        (lambda x: x + torch.linspace(0, 1j, x.shape[1]).real, "gives complex numbers"),
    ],
)
@pytest.mark.parametrize("form", [Branching, Looping])
def test_bodies_of_other_lengths_are_refused(
    function: Function, words: str, form: Callable[[Function, bool], nn.Module]
) -> None:
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            form(function, False),
            (torch.randn(4, 6),),
            dynamic_shapes=SHAPES,
            target="interpreter",
        )
