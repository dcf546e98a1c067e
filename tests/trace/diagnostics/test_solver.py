"""Conditions on halves of halves of a size, at which torch's solver fails."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

SIDES = {2: Dim("h", min=8, max=70), 3: Dim("w", min=8, max=70)}
EIGHTHS = {2: 8 * Dim("h", min=2, max=8), 3: 8 * Dim("w", min=2, max=8)}


class Unpooled(nn.Module):
    """Two pools behind a stem of stride 2, and back."""

    def __init__(self, *, has_sizes: bool) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 2, 3, stride=2, padding=1)
        self.has_sizes = has_sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        z, first = F.max_pool2d(y, 2, return_indices=True)
        last, second = F.max_pool2d(z, 2, return_indices=True)
        if self.has_sizes:
            z = F.max_unpool2d(last, second, 2, output_size=z.shape[2:])
            return F.max_unpool2d(z, first, 2, output_size=y.shape)
        return F.max_unpool2d(F.max_unpool2d(last, second, 2), first, 2)


def built(model: nn.Module, side: int, shapes: Any) -> Any:
    example = (torch.randn(1, 1, side, side),)
    return aotpack.compile(model, example, dynamic_shapes=(shapes,), target="interpreter")


@pytest.mark.parametrize(
    ("has_sizes", "side", "shapes", "tried"),
    [
        (True, 32, SIDES, [(8, 70), (9, 8), (11, 33), (63, 62), (70, 15)]),
        (True, 31, SIDES, [(8, 9), (30, 31), (69, 12)]),
        (True, 32, EIGHTHS, [(16, 64), (40, 24)]),
        (False, 32, EIGHTHS, [(16, 64), (40, 24)]),
    ],
)
def test_images_that_are_halved_twice(
    has_sizes: bool, side: int, shapes: Any, tried: list[tuple[int, int]]
) -> None:
    model = Unpooled(has_sizes=has_sizes)
    package = built(model, side, shapes)
    for sides in tried:
        x = torch.randn(1, 1, *sides)
        torch.testing.assert_close(package(x), model(x))


def test_sizes_that_unpooling_does_not_give_back_are_told() -> None:
    words = r"Declare 8\*Dim\('w', min=2, max=8\) for dimension 3.*output_size=y\.shape\[2:\]"
    with pytest.raises(TraceError, match=words) as raised:
        built(Unpooled(has_sizes=False), 32, SIDES)
    assert "return F.max_unpool2d(F.max_unpool2d(last, second, 2), first, 2)" in str(raised.value)
    assert "8*Dim('h', min=2, max=8) for dimension 2 of argument 'x'" in str(raised.value)
