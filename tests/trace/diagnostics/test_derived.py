"""Conditions that torch derives and cannot prove: taken where they hold, else refused."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

POOLING = {
    "max": nn.MaxPool2d(3, 2, ceil_mode=True),
    "max, padded": nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
    "mean": nn.AvgPool2d(2, 2, ceil_mode=True),
    "powers": nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True), nn.LPPool2d(2, 1)),
}


@pytest.mark.parametrize("low", [2, 3])
@pytest.mark.parametrize("case", POOLING)
def test_pooling_of_what_is_left(*, case: str, low: int) -> None:
    module = POOLING[case]
    shapes: Any = ({2: Dim("h", min=low, max=40), 3: Dim("w", min=low)},)
    given = (torch.randn(2, 3, 12, 14),)
    model = aotpack.compile(module, given, dynamic_shapes=shapes, target="interpreter")
    for height in (low, low + 1, low + 2, 17, 40):
        x = torch.randn(2, 3, height, 2 * low + 1)
        torch.testing.assert_close(model(x), module(x))


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool1d(x.view(-1, 3), 2, 2, ceil_mode=True)


def test_a_condition_that_may_fail_is_refused() -> None:
    given = (torch.randn(6, 4),)
    with pytest.raises(TraceError, match=r"right only for some of the sizes(.|\n)*% 3"):
        aotpack.compile(
            Rows(), given, dynamic_shapes=({0: Dim("n", max=50)},), target="interpreter"
        )
