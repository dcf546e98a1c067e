"""Depthwise convolutions in C: channels in lanes, windows inside and at the edges."""

import pytest
import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import functions_of, rendered


def texts(model: nn.Module, channels: int, dtype: torch.dtype = torch.float32) -> str:
    """The kernels of this template."""
    image = torch.zeros(1, channels, 20, 20, dtype=dtype)
    kernels = rendered(model.to(dtype), image, targets=(CPU,)).kernels
    return "\n".join(one.text for one in kernels if "kernel_depthwise.c.jinja" in one.text)


def between(middle: nn.Module, channels: int, dtype: torch.dtype = torch.float32) -> str:
    """The kernels of a layer between two others, which leave its memory order open."""
    first, last = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 4, 1)
    return texts(nn.Sequential(first, middle, nn.ReLU(), last), 3, dtype)


def depthwise(channels: int, kernel: int, **options: int) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, kernel, groups=channels, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_channels_lie_in_lanes(dtype: torch.dtype) -> None:
    text = between(depthwise(24, 3, padding=1, stride=2, dilation=2), 24, dtype)
    loads = [line for line in text.splitlines() if "aot_lanes_of_" in line]
    assert loads and all(str(dtype).removeprefix("torch.") in line for line in loads)


@pytest.mark.parametrize(
    ("middle", "channels"),
    [
        (depthwise(15, 3), 15),
        (depthwise(24, 12), 24),
        (nn.Conv2d(24, 24, 3, groups=12), 24),
        (nn.MaxPool2d(3), 24),
    ],
    ids=["few-channels", "long-sums", "groups", "no-product"],
)
def test_other_sums_have_other_kernels(middle: nn.Module, channels: int) -> None:
    assert not between(middle, channels)


def test_an_image_in_its_own_order_has_no_lanes_of_channels() -> None:
    assert not texts(depthwise(24, 3), 24)


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [({"padding": 1}, 1, 19), ({"padding": 2, "stride": 2}, 1, 10), ({}, 0, 18)],
    ids=["padded", "strided", "inside"],
)
def test_windows_inside_the_image_are_summed_together(
    options: dict[str, int], low: int, high: int
) -> None:
    text = functions_of(between(depthwise(16, 3, **options), 16), "run")
    (line,) = (line.strip(" ;") for line in text.splitlines() if "const int64_t low = " in line)
    texts = line.removeprefix("const int64_t low = ").split(", high = ")
    known = {"aot_max": max, "aot_min": min, "aot_ceil_div": lambda a, b: -(-a // b)}
    assert [eval(text, known) for text in texts] == [low, high]
