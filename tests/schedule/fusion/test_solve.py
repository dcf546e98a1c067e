"""The points at which an operation reads elements: found, or refused."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load
from aotpack.schedule.fusion.solve import is_read_whole
from tests.schedule.programs import F32, scheduled

ROW, COLUMN = Axis("i", Int.of(3)), Axis("j", Int.of(4))
SHAPE = (Int.of(3), Int.of(4))


def test_each_element_is_read_once() -> None:
    assert is_read_whole(Load("x", (Int.of(ROW), Int.of(COLUMN)), F32), SHAPE)
    assert is_read_whole(Load("x", (Int.of(4) * Int.of(ROW) + COLUMN,), F32), (Int.of(12),))


@pytest.mark.parametrize(
    "index",
    [(Int.of(ROW), Int.of(0)), (Int.of(ROW), Int.of(ROW)), (Int.of(ROW), Int.of(3) - COLUMN)],
    ids=["a column", "a diagonal", "backwards"],
)
def test_parts_of_a_tensor_are_not_the_whole(index: tuple[Int, ...]) -> None:
    assert not is_read_whole(Load("x", index, F32), SHAPE)


class HalfTwice(nn.Module):
    """A half of a tensor, twice, beside all of it: as many points, at other elements."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = x.chunk(2, 1)[0]
        return x * 2, torch.cat((half, half), 1)


def test_kernels_that_read_a_half_and_the_whole_stay_apart() -> None:
    sizes = {"x": {0: Dim("b", max=7), 4: Dim("h", min=3, max=1000)}}
    made = scheduled(HalfTwice(), torch.randn(2, 2, 3, 6, 5), dynamic_shapes=sizes)
    (schedule,) = made.schedules
    assert [kernel.name for kernel in schedule.kernels] == ["mul", "cat"]
