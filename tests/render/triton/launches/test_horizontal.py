"""Kernels that share a launch: functions found by program number, tensors passed once."""

import re

import pytest
import torch
from torch import nn

from aotpack.render import render
from aotpack.stages import Rendered
from aotpack.target import CPU, Target
from tests.render.models import H100
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import scheduled


class Apart(nn.Module):
    """Maps of tensors that have nothing to do with each other."""

    def forward(self, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.exp() if n % 3 == 0 else x.softmax(-1) for n, x in enumerate(xs))


class Scaled(nn.Module):
    """Maps of tensors of other sizes by one number."""

    def forward(self, s: torch.Tensor, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x * s for x in xs)


def apart(*widths: int, targets: tuple[Target, ...] = H100) -> Rendered:
    return render(scheduled(Apart(), *[torch.zeros(2, width) for width in widths]), targets)


@pytest.mark.row("C:J6", "C:J9", "C:J10", "C:J17", "C:J7")
def test_programs_are_numbered_through() -> None:
    product = apart(1000, 1000, 1000, 500)
    (kernel,) = product.kernels
    assert re.findall(r"program < (\d+)", kernel.text) == ["10", "8", "12"]
    assert re.findall(r"program - (\d+)\)", kernel.text) == ["8", "10", "12"]
    (launch,) = plan_of(product)(90).launches
    assert launch.grid == (16, 1, 1)


@pytest.mark.row("C:J10", "C:def9")
def test_equal_members_are_one_function() -> None:
    text = apart(64, 64, 64, 64, 64, 64, 64).kernels[0].text
    assert len(re.findall(r"^def exp_[0-9a-f]+\(", text, re.MULTILINE)) == 1
    assert len(re.findall(r"^ +exp\w+\(", text, re.MULTILINE)) == 3
    assert len(re.findall(r"^def softmax\w+", text, re.MULTILINE)) == 1


@pytest.mark.row("C:J4", "C:J14")
def test_a_tensor_of_several_members_is_passed_once() -> None:
    xs = [torch.zeros(2, width) for width in (64, 65, 66, 67)]
    product = render(scheduled(Scaled(), torch.zeros(1), *xs), H100)
    (launch,) = plan_of(product)(90).launches
    assert len(launch.args) == len(set(launch.args)) == 1 + 4 + 4


@pytest.mark.row("C:J8")
def test_processors_run_members_one_by_one() -> None:
    both = plan_of(apart(64, 65, 66, targets=(*H100, CPU)))
    alone = plan_of(apart(64, 65, 66, targets=(CPU,)))
    steps = [len(list(plan.steps())) for plan in (both(90), both(0), alone(0))]
    assert steps == [1, 3, 3]


@pytest.mark.row("C:inv24")
@pytest.mark.parametrize("widths", [(64, 65), (64, 65, 66, 67, 68)])
def test_two_renders_are_equal(widths: tuple[int, ...]) -> None:
    assert apart(*widths).as_text() == apart(*widths).as_text()
