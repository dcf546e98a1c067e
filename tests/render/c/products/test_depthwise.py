"""Depthwise convolutions in C: channels in lanes, windows inside and at the edges."""

import re

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
    loads = re.findall(r"lanes(?:16)?_of_(\w+)\(", text)
    assert set(loads) == {str(dtype).removeprefix("torch.")}


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
    ("options", "columns", "low", "high"),
    [
        ({"padding": 1}, 22, 1, 21),
        ({"padding": 2, "stride": 2}, 23, 2, 22),
        ({"padding": 2, "dilation": 2}, 24, 2, 22),
        ({}, 20, 0, 20),
    ],
    ids=["padded", "strided", "dilated", "inside"],
)
def test_columns_outside_the_image_are_left_out(
    options: dict[str, int], columns: int, low: int, high: int
) -> None:
    text = functions_of(between(depthwise(16, 3, **options), 16), "run")
    (line,) = (line.strip(" ;") for line in text.splitlines() if "const int64_t low = " in line)
    texts = line.removeprefix("const int64_t low = ").split(", high = ")
    known = {
        "aot_max": max,
        "aot_min": min,
        "aot_ceil_div": lambda a, b: -(-a // b),
        "columns": columns,
    }
    assert [eval(text, known) for text in texts] == [low, high]


def test_a_column_is_read_once_for_all_windows_of_a_tile() -> None:
    text = between(depthwise(16, 3, padding=1), 16)
    wide = text.split("_sums_wide(")[1].split("\n}\n")[0]
    assert wide.count(" column = ") == 7 + 2  # 20 positions are three tiles, of 7 at most
    assert wide.count("+= column * weight") == 7 * 3


def test_taps_at_other_steps_than_positions_are_rows_of_their_own() -> None:
    text = between(depthwise(16, 11, dilation=5, padding=25), 16)
    wide = text.split("_sums_wide(")[1].split("\n}\n")[0]
    assert wide.count(" column = ") == wide.count("+= column * weight") == 7
