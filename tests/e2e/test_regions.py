"""Changes in place inside of regions, such as those of autocast, and of branches in them."""

from typing import Any

import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import AotpackError


class Region(nn.Module):
    """An autocast region that changes its own values, an argument and the state."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x[0].zero_()
            self.total[1:].add_(1)
            y = self.layers(x)
            y /= 2
        return y.float() + self.total


class RegionInABranch(nn.Module):
    def __init__(self, *, is_own: bool) -> None:
        super().__init__()
        self.is_own = is_own

    def forward(self, x: torch.Tensor) -> Any:
        def side(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x * 2
                (y if self.is_own else x).add_(1)
            return y

        return torch.cond(x.sum() > 0, side, lambda x: x * 1, (x,))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_region_changes_in_place(target: str) -> None:
    torch.manual_seed(0)
    module, x = Region().eval(), torch.randn(3, 4)
    model = aotpack.compile(module, (x.clone(),), target=target)
    for _ in range(3):
        ours, eager = x.clone(), x.clone()
        with torch.no_grad():
            torch.testing.assert_close(model(ours), module(eager), atol=0.02, rtol=0.02)
        assert torch.equal(ours, eager) and not ours[0].any()
    assert torch.equal(torch.from_dlpack(model.state["total"]), module.total)


def test_a_region_in_a_branch_changes_what_it_makes() -> None:
    module = RegionInABranch(is_own=True)
    model = aotpack.compile(module, (torch.randn(3, 4),), target="cpu")
    for x in (torch.rand(3, 4), -torch.rand(3, 4)):
        assert torch.equal(model(x), module(x))


def test_a_region_in_a_branch_that_changes_an_operand_is_refused() -> None:
    with pytest.raises(AotpackError, match=r"aten.add_.Tensor changes .* inside of a branch"):
        aotpack.compile(RegionInABranch(is_own=False), (torch.randn(3, 4),), target="cpu")
