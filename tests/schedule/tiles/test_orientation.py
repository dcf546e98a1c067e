"""Tiles whose results are neighbours along rows at places that no compiler knows to be such."""

import pytest
import torch
from torch import nn

from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import parse_targets


class Moved(nn.Module):
    """A product whose columns are moved before the last ``length`` of its rows."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.linear, self.length = nn.Linear(64, 128), length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).view(-1, self.length, 128)
        return torch.relu(y.transpose(1, 2).contiguous())


def tiles(module: nn.Module, *shape: int, dtype: torch.dtype = torch.bfloat16) -> list[MatmulTile]:
    """The tiles of the products of a module, of all architectures."""
    options = BuildOptions(parse_targets("sm_90"), golden=0)
    source = Source(module.to(dtype).eval(), (torch.randn(shape).to(dtype),))
    kernels = Build(source, options).scheduled.schedule.kernels
    variants = [v for kernel in kernels if kernel.template_op for v in kernel.variants]
    return [tile for v in variants for tile in v.tiles if isinstance(tile, MatmulTile)]


@pytest.mark.parametrize(
    ("module", "shape", "turned"),
    [
        (Moved(49), (32 * 49, 64), True),
        (Moved(56), (32 * 56, 64), False),  # runs of 8
        (nn.Linear(64, 128), (32 * 49, 64), False),
        (nn.Conv1d(1, 128, 10, 5), (2, 1, 16000), True),
        (nn.ConvTranspose2d(64, 32, 2, 2), (1, 64, 56, 56), True),  # steps of 2
    ],
    ids=["odd", "even", "rows", "sound", "transposed"],
)
def test_lanes_go_along_neighbours_that_are_not_known_to_be_such(
    module: nn.Module, shape: tuple[int, ...], turned: bool
) -> None:
    assert {tile.swapped for tile in tiles(module, *shape)} == {turned}


@pytest.mark.parametrize(
    ("module", "turned"),
    [
        (nn.Conv2d(64, 256, 1, 2), True),  # of a copy with channels innermost
        (nn.Conv2d(64, 64, 1, 2), False),
    ],
    ids=["along", "across"],
)
def test_rows_of_float32_lie_along_the_sum(module: nn.Module, turned: bool) -> None:
    found = tiles(module, 32, 64, 14, 14, dtype=torch.float32)
    assert {tile.swapped for tile in found} == {turned}
