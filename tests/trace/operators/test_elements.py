"""Calls that need elements, where a declared size may leave none: the build is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

PLACES = torch.tensor([0, 0])


class Part(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


NEEDS: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "median": (lambda x: x[2:].median(0).values, 3),
    "nanmedian": (lambda x: x[1:].nanmedian(0).values, 2),
    "mode": (lambda x: x[3:].mode(0).values, 4),
    "quantile": (lambda x: x[: x.shape[0] // 2].quantile(0.5, dim=0), 2),
    "max": (lambda x: x[3:].max(0), 4),
    "min of all": (lambda x: x[3:].min(), 4),
    "index": (lambda x: x[3:][PLACES], 4),
    "index_select": (lambda x: x[3:].index_select(0, PLACES), 4),
    "gather": (lambda x: x[3:].gather(0, PLACES[:, None]), 4),
    "embedding": (lambda x: F.embedding(PLACES, x[3:]), 4),
    "embedding_bag": (lambda x: F.embedding_bag(PLACES[None], x[3:]), 4),
    "grid_sample": (lambda x: F.grid_sample(x[None, None, 3:], torch.zeros(1, 2, 2, 2)), 4),
    "adaptive pool": (lambda x: F.adaptive_avg_pool1d(x[3:].mT[None], 2), 4),
    "resize": (lambda x: F.interpolate(x.mT[None], scale_factor=0.3, mode="linear"), 4),
}


@pytest.mark.parametrize(("function", "least"), NEEDS.values(), ids=NEEDS)
def test_a_call_that_needs_elements(function: Callable[[Tensor], Any], least: int) -> None:
    model, given = Part(function), (torch.randn(8, 6),)
    with pytest.raises(TraceError, match=rf"does not hold for b=1. .* min={least}, or change"):
        aotpack.compile(model, given, dynamic_shapes=({0: Dim("b", min=1, max=40)},), target="cpu")
    with pytest.raises((IndexError, RuntimeError)):
        function(torch.randn(least - 1, 6))


def test_from_the_named_size_on_it_is_packaged() -> None:
    for function, least in (NEEDS["median"], NEEDS["max"]):
        shapes = ({0: Dim("b", min=least, max=40)},)
        package = aotpack.compile(
            Part(function), (torch.randn(8, 6),), dynamic_shapes=shapes, target="cpu"
        )
        x = torch.randn(least, 6)
        torch.testing.assert_close(package(x), function(x))


SUMS: Callable[[Tensor], Any] = lambda x: (x[3:].sum(0), x[3:].mean(0), x[3:].softmax(0))  # noqa: E731


def test_sums_of_no_elements_are_packaged() -> None:
    shapes = ({0: Dim("b", min=1, max=40)},)
    package = aotpack.compile(Part(SUMS), (torch.randn(8, 6),), dynamic_shapes=shapes, target="cpu")
    for size in (1, 3, 4, 40):
        x = torch.randn(size, 6)
        torch.testing.assert_close(package(x), SUMS(x), equal_nan=True)


def test_a_branch_that_data_choose() -> None:
    def either(x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x[3:].max(0).values, lambda x: x[0] * 2, (x,))

    shapes = ({0: Dim("b", min=3, max=8)},)
    with pytest.raises(TraceError, match=r"needs b - 3 >= 1, .* for b=3. .* min=4"):
        aotpack.compile(Part(either), (torch.randn(6, 6),), dynamic_shapes=shapes, target="cpu")


def test_a_branch_that_the_size_chooses() -> None:
    def either(x: Tensor) -> Any:
        return torch.cond(x.shape[0] > 3, lambda x: x[3:].max(0).values, lambda x: x[0] * 2, (x,))

    shapes = ({0: Dim("b", min=3, max=8)},)
    model = Part(either)
    package = aotpack.compile(model, (torch.randn(6, 6),), dynamic_shapes=shapes, target="cpu")
    for size in (3, 4, 8):
        x = torch.randn(size, 6)
        torch.testing.assert_close(package(x), model(x))
