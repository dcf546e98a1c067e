"""Rows of short runs of memory are reduced along neighbours of memory; the meaning stays."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aotpack.devices import H200
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.program import verify
from aotpack.schedule.program.split.split_reduction import split_reductions
from aotpack.target import CPU, Target
from tests.schedule.programs import F32, Writer, load, scheduled

GPU = Target("cuda", 90)
SIZES = (2, 4, 10, 6144)  # images, groups, channels of a group, positions
INNERMOST = (6144 * 40, 1, 40)


def by_groups(kind: str) -> Program:
    """A reduction of groups of channels of images (n, channel, position)."""
    images, groups, channels, positions = SIZES
    w = Writer(())
    x = w.input("x", images, groups * channels, positions)
    names = ("y", "m2") if kind == "welford" else ("y",)
    outs = w.reductions(
        names,
        [images, groups],
        [channels, positions],
        lambda n, g, c, k: load(x, n, g * channels + c, k),
        kind=kind,
        dtype=F32,
    )
    return w.program(*outs)


def strides(*steps: int) -> dict[str, tuple[Int, ...]]:
    return {"x": tuple(map(Int.of, steps))}


@pytest.mark.parametrize("kind", ["sum", "max", "welford"])
def test_each_channel_is_reduced_alone_then_the_group(kind: str) -> None:
    program = by_groups(kind)
    split = split_reductions(program, H200, expected=strides(*INNERMOST))
    verify(split)
    first = next(one for one in split.operations if isinstance(one, Reduction))
    assert [int(axis.extent) for axis in first.axes][1:] == [2, 4, 10]
    assert len(first.inner) == 1 and math.prod(int(a.extent) for a in first.axes) > 2000
    x = np.random.default_rng(0).standard_normal((2, 40, 6144)).astype(np.float32) + 3
    for name in program.outputs:
        whole, parts = (evaluate(p, {"x": x}, {}, {})[name] for p in (program, split))
        np.testing.assert_allclose(whole, parts, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "steps",
    [(6144 * 40, 6144, 1), (6144 * 40, 1, 41), (40, 2, 80)],
    ids=["row-major", "padded", "every other"],
)
def test_other_rows_are_not_scattered(steps: tuple[int, ...]) -> None:
    program = by_groups("welford")
    split = split_reductions(program, H200, expected=strides(*steps))
    first = next(one for one in split.operations if isinstance(one, Reduction))
    is_lane = 10 in [int(axis.extent) for axis in first.axes]
    assert is_lane == (steps[1] == 1)


def test_the_position_of_an_extreme_needs_the_order_of_rows() -> None:
    program = by_groups("argmax")
    split = split_reductions(program, H200, expected=strides(*INNERMOST))
    first = next(one for one in split.operations if isinstance(one, Reduction))
    assert 10 not in [int(axis.extent) for axis in first.axes]


def test_pools_are_reduced_in_one_step() -> None:
    module = nn.MaxPool2d(2)
    schedule = scheduled(module, torch.randn(8, 64, 224, 224), targets=(GPU,)).on(90)
    assert [len(one.axes) for one in schedule.kernels] == [2]


class Normed(nn.Module):
    """A group norm, or a norm of channels, between two convolutions."""

    def __init__(self, *, of_channels: bool) -> None:
        super().__init__()
        self.of_channels = of_channels
        self.first = nn.Conv2d(16, 320, 3, padding=1)
        self.second = nn.Conv2d(320, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if self.of_channels:
            return self.second(F.layer_norm(y.movedim(1, -1), (320,)).movedim(-1, 1) + y)
        return self.second(F.silu(F.group_norm(y, 32)))


def reduced(module: nn.Module, target: Target, size: int = 64) -> list[tuple[int, ...]]:
    """The axes of kernels that reduce rows; images on GPUs have channels innermost."""
    schedule = scheduled(module, torch.randn(2, 16, size, size), targets=(target,)).on(target.arch)
    shape = [2, 320, size, size]
    for name, strides in schedule.strides.items() if target is GPU else ():
        if schedule.program.buffers[name].shape == tuple(map(Int.of, shape)):
            assert strides[1].constant == 1
    loops = [one for one in schedule.kernels if one.template_op is None and len(one.axes) == 2]
    return [tuple(int(axis.extent) for axis in one.axes) for one in loops]


def test_group_norms_between_convolutions_go_by_channels() -> None:
    (columns, rows), (groups, parts) = reduced(Normed(of_channels=False), GPU)
    assert columns * rows == 2 * 320 * 64 * 64 and columns % 320 == 0
    assert groups == 64 and groups * parts == columns


def test_norms_of_channels_are_whole_where_channels_are_innermost() -> None:
    assert reduced(Normed(of_channels=True), GPU) == [(8192, 320)]


@pytest.mark.parametrize(("target", "size"), [(CPU, 64), (GPU, 8)], ids=["processors", "small"])
def test_other_group_norms_keep_their_rows(target: Target, size: int) -> None:
    found = reduced(Normed(of_channels=False), target, size)
    assert found and all(rows % 64 == 0 and rows % 320 for rows, _ in found)
