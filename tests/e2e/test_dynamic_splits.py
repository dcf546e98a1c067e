"""Reductions of a dynamic length are split as those of the typical length, and right for any."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.kernel import Kernel, block_count, gpu_variants
from aotpack.ir.kernels.tiles import PointwiseTile, ReductionTile
from aotpack.ir.symbolic.facts import typical
from aotpack.lower import lower
from aotpack.schedule import schedule
from aotpack.target import parse_targets
from aotpack.trace import trace

from .oracle import agree, compile_all

COLUMNS, TYPICAL = 64, 4096
SIZES = Dim("b", min=1, max=TYPICAL**2)
PARTS = 64


class Whole(nn.Module):
    """A function of one tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def sums(x: torch.Tensor) -> Any:
    return x.mean(), x.std(), x.amax(), (x > 3).any(), x.sum(0), x.var(0)


def positions(x: torch.Tensor) -> Any:
    return x.argmax(), x.argmin(), x.flatten().softmax(0), (x * x[0]).sum()


def quantised(x: torch.Tensor) -> Any:
    scale = x.abs().amax() / 127
    return torch.round(x / scale).to(torch.int8), scale


def form(function: Callable[..., Any], *, dynamic: bool) -> set[tuple[int, int | None]]:
    """The rows and the grid of each kernel of several programs, at the typical size."""
    x = torch.empty(TYPICAL, 1024, device="meta")
    shapes = {"x": {0: SIZES}} if dynamic else None
    traced = trace(Whole(function), (x,), dynamic_shapes=shapes, name="m", version="1", golden=0)
    made = schedule(lower(traced), targets=parse_targets("sm_90")).on(90)
    found = {(typical(k.axes[0].extent), _grid(k)) for k in made.kernels}
    return {one for one in found if one[0] > 1}


def _grid(kernel: Kernel) -> int | None:
    tile = gpu_variants(kernel)[0].tile
    is_loop = len(kernel.axes) == 2 and isinstance(tile, (PointwiseTile, ReductionTile))
    return typical(block_count(kernel, tile)) if is_loop else None


@pytest.mark.row("S:B9")
@pytest.mark.parametrize("function", [sums, positions, quantised])
def test_a_dynamic_length_has_the_form_of_its_typical_one(function: Callable[..., Any]) -> None:
    found = form(function, dynamic=True)
    assert found == form(function, dynamic=False)
    assert max(grid for _, grid in found if grid) >= PARTS


@pytest.mark.row("S:B9")
def test_a_short_dynamic_length_is_not_split() -> None:
    assert form(lambda x: x[:, 0].sum(), dynamic=True) == set()


@pytest.mark.row("S:B9")
@pytest.mark.parametrize("function", [sums, positions, quantised])
def test_dynamic_splits_are_right_for_any_length(function: Callable[..., Any]) -> None:
    shapes = {"x": {0: SIZES}}
    compiled = compile_all(Whole(function), (torch.randn(8, COLUMNS),), dynamic_shapes=shapes)
    for rows in (1, 7, 8, 65):
        x = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(rows)) + 5
        agree(compiled, (x,), programs=rows in (7, 8))
