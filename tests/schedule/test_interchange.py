"""Kernels visit points as most of their bytes lie; the meaning stays, and so do ordered loops."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from aotpack import compile as compile_model
from aotpack.ir.kernels.access import accesses, local_slope
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.target import CPU, Target

from .programs import scheduled

H200 = Target("cuda", 90)


class Normed(nn.Module):
    """Something between two convolutions, which want channels innermost."""

    def __init__(self, between: Any, channels: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, channels, 3, padding=1)
        self.between = between
        self.second = nn.Conv2d(channels, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        return self.second(self.between(first) + first)


def group_norm(groups: int) -> Any:
    return lambda y: F.silu(F.group_norm(y, groups))


def rows(schedule: Schedule) -> Kernel:
    """The kernel that reduces rows or scans them."""
    found = [one for one in schedule.kernels if one.template_op is None and len(one.axes) == 2]
    return found[-1]


def strided(kernel: Kernel, schedule: Schedule) -> list[str]:
    """The large tensors that a kernel does not visit along memory."""
    return [
        one.buffer
        for one in accesses(kernel)
        if len(schedule.program.buffers[one.buffer].shape) > 2
        and 1 not in {local_slope(one.offset(schedule.strides), axis) for axis in kernel.axes}
    ]


@pytest.mark.row("S:inv10")
def test_a_norm_between_convolutions_stores_channels_innermost() -> None:
    schedule = scheduled(Normed(group_norm(4)), torch.randn(2, 16, 6, 7), targets=(H200,)).on(90)
    kernel = rows(schedule)
    assert strided(kernel, schedule) == []
    assert [int(step) for step in schedule.strides[kernel.stored[-1]]] == [1344, 1, 224, 32]


def test_a_norm_of_row_major_tensors_stays_as_it_is() -> None:
    schedule = scheduled(nn.GroupNorm(4, 32), torch.randn(2, 32, 6, 7), targets=(H200,)).on(90)
    assert {str(index) for _, index in rows(schedule).members[0].binding} >= {"(r%7)"}


@pytest.mark.row("S:T15")
@pytest.mark.parametrize(
    "between",
    [
        lambda y: y.flatten(1).cumsum(1).view(y.shape),
        lambda y: y.flatten(1).argmax(1)[:, None, None, None] * 1e-3,
    ],
    ids=["scan", "position"],
)
def test_loops_with_an_order_keep_it(between: Any) -> None:
    schedule = scheduled(Normed(between), torch.randn(2, 16, 6, 7), targets=(H200,)).on(90)
    ordered = [
        one
        for kernel in schedule.kernels
        if kernel.template_op is None and len(kernel.axes) == 2
        for member in kernel.members
        for _, index in member.binding
        for one in [str(index)]
    ]
    assert "(r%7)" in ordered or "r" in ordered


def test_processors_keep_the_order_of_the_program() -> None:
    module, x = Normed(group_norm(4)), torch.randn(2, 16, 6, 7)
    schedule = scheduled(module, x, targets=(CPU,)).on(0)
    assert {str(index) for _, index in rows(schedule).members[0].binding} >= {"(r%7)"}


@pytest.mark.row("S:inv10")
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (4, 5), (32, 3)])
def test_the_meaning_stays_for_every_size(groups: int, size: int) -> None:
    module = Normed(group_norm(groups)).eval()
    batch = torch.export.Dim("batch", min=1, max=5)
    height = torch.export.Dim("height", min=4, max=9)
    model = compile_model(
        module,
        (torch.randn(2, 16, 4, 5),),
        dynamic_shapes=({0: batch, 2: height},),
        target="interpreter",
    )
    for shape in ((1, 16, 4 + size, 5), (3, 16, 4, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-4)


class Doubled(nn.Module):
    """An image of steps of rows, twice along its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = nn.Linear(6, 6, bias=False)
        self.windows = nn.Conv2d(6, 6, (3, 2), (3, 3), (3, 1), (1, 2), groups=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.windows(self.mixed(x.movedim(1, -1)).movedim(-1, 1))
        return torch.cat((image, image), 1)


def test_digits_of_rounded_sizes_are_told_apart() -> None:
    sizes = {"x": {0: Dim("b", max=64), 2: Dim("h", max=64)}}
    x = torch.randn(2, 6, 5, 2)
    schedule = scheduled(Doubled(), x, dynamic_shapes=sizes).on(90)
    bindings = [value for k in schedule.kernels for m in k.members for _, value in m.binding]
    assert max(len(str(value)) for value in bindings) < 60
    module = Doubled().eval()
    compiled = compile_model(module, (x,), target="interpreter", dynamic_shapes=sizes)
    for b, h in ((1, 1), (3, 8)):
        x = torch.randn(b, 6, h, 2)
        torch.testing.assert_close(compiled(x), module(x))
