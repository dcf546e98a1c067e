"""Reductions as text."""

import pytest
import torch
from torch import nn

from tests.render.models import rendered


class Below(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.amax(1, keepdim=True)).float()


@pytest.mark.row("C:D8", "C:inv21")
def test_narrow_integers_stay_narrow() -> None:
    (kernel,) = rendered(Below(), torch.zeros(4, 8, dtype=torch.int8)).kernels
    assert "tl.max(" in kernel.text and ".to(tl.int8)" in kernel.text


def test_wide_integers_are_reduced_as_they_are() -> None:
    (kernel,) = rendered(Below(), torch.zeros(4, 8, dtype=torch.int64)).kernels
    assert "tl.max(" in kernel.text and ".to(tl.int64)" not in kernel.text
