"""Launches of Triton kernels: a program for each block, whatever the tile."""

import pytest
import torch
from torch import nn

from tests.render.models import Projection, Softmax, rendered
from tests.render.test_wrapper import plan_of


@pytest.mark.parametrize(
    ("model", "shape", "programs"),
    [
        (nn.Tanh(), (1000, 3), 12),  # blocks of 256 points
        (Softmax(), (50, 1000), 50),  # rows
        (Projection(64, 96), (130, 64), 9 * 2),  # tiles of 16 x 64
    ],
    ids=["points", "rows", "tiles"],
)
def test_a_launch_has_a_program_for_each_block(
    model: nn.Module, shape: tuple[int, ...], programs: int
) -> None:
    (launch,) = plan_of(rendered(model, torch.zeros(shape)))(90).launches
    assert launch.grid == (programs, 1, 1)
