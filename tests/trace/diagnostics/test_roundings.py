"""Sizes that are rounded from floats: of one factor they are right, of several refused."""

import math

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import UnsupportedError

SEVERAL = {
    "products": lambda x: torch.ones(math.floor(x.shape[0] * 0.3 * 10)),
    "upwards": lambda x: torch.ones(math.ceil(x.shape[0] * 0.1 * 10)),
    "a quotient": lambda x: x[: math.floor(x.shape[0] / 3 * 0.9)] * 2,
    "an integer first": lambda x: torch.ones(math.floor(x.shape[0] * 3.0 * 0.7)),
    "an operator": lambda x: torch.arange(0, x.shape[0] * 0.3, 0.1),
    "in a branch": lambda x: torch.cond(
        x.sum() > 0,
        lambda x: x * torch.ones(math.floor(x.shape[0] * 0.3 * 10)).sum(),
        lambda x: x * 2,
        (x,),
    ),
}
ONE = {
    "a product": lambda x: torch.ones(math.floor(x.shape[0] * 0.3) + 1),
    "upwards": lambda x: torch.ones(math.ceil(x.shape[0] * 0.7)),
    "a quotient": lambda x: torch.ones(math.ceil(x.shape[0] / 3)),
    "a power of 2": lambda x: torch.ones(math.floor(x.shape[0] * 0.3 * 0.5) + 1),
    "beside a factor": lambda x: x[: math.floor(x.shape[0] * 0.6) + 1] * (x.shape[0] * 0.3),
}


def model(function) -> nn.Module:
    return type("Model", (nn.Module,), {"forward": lambda self, x: function(x)})()


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("function", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("times", [1, 2])
def test_a_float_of_several_steps_is_refused(function, times: int) -> None:
    """torch folds them to one, which for some sizes is another integer."""
    sizes = {"x": {0: times * Dim("a", min=2, max=150)}}
    with pytest.raises(UnsupportedError, match=r"computed in several steps.*\n  at test_roundings"):
        aotpack.compile(model(function), (torch.ones(12),), dynamic_shapes=sizes, target="cpu")


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("function", ONE.values(), ids=ONE)
def test_a_float_that_is_rounded_once_gives_the_size(function) -> None:
    sizes = {"x": {0: Dim("n", min=2, max=300)}}
    package = aotpack.compile(
        model(function), (torch.ones(12),), dynamic_shapes=sizes, target="cpu"
    )
    for n in range(2, 301):
        x = torch.ones(n)
        assert torch.equal(package(x), function(x)), n
