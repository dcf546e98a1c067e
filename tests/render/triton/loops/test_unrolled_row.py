"""Windows: lanes are rows, and each element of a row is a line."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import aotpack
from aotpack.target import parse_targets
from tests.render.models import rendered, shown

H100 = parse_targets("sm_90")


def depthwise(
    channels: int, kernel: int, dtype: torch.dtype, share: int = 1, **options: int
) -> nn.Module:
    """A convolution of groups of ``share`` channels between two others."""
    first, last = (nn.Conv2d(channels, channels, 1) for _ in range(2))
    conv = nn.Conv2d(channels, channels, kernel, groups=channels // share, **options)
    return nn.Sequential(first, conv, nn.ReLU(), last).to(dtype)


CASES = {
    "3x3": (depthwise(32, 3, torch.bfloat16, padding=1), (2, 32, 7, 9)),
    "odd channels": (depthwise(33, 5, torch.float32, padding=2, stride=2), (1, 33, 11, 6)),
    "dilated": (depthwise(8, 3, torch.float16, padding=2, dilation=2), (3, 8, 5, 5)),
    "rows": (nn.Conv2d(6, 6, 7, padding=3, groups=6), (2, 6, 9, 12)),
    "groups": (depthwise(16, 3, torch.bfloat16, padding=1, share=4), (2, 16, 7, 9)),
    "groups of rows": (nn.Conv2d(12, 8, 3, 2, 1, groups=4), (3, 12, 9, 10)),
    "pooled": (
        nn.Sequential(nn.Conv2d(4, 16, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 8, 1)),
        (1, 4, 12, 9),
    ),
}


def window_of(model: nn.Module, *shape: int) -> str:
    """The kernel of the depthwise convolution."""
    dtype = next(model.parameters()).dtype
    kernels = rendered(model, torch.zeros(shape, dtype=dtype), targets=H100).kernels
    (text,) = (shown(one.text) for one in kernels if "combine_sum(" in one.text)
    return text


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_windows_are_summed_right(case: str, target: str) -> None:
    torch.manual_seed(0)
    model, shape = CASES[case]
    x = torch.randn(shape, dtype=next(model.parameters()).dtype)
    found = torch.as_tensor(aotpack.compile(model, (x,), target=target)(x)).double()
    eager, exact = model(x), model.double()(x.double())
    model.to(x.dtype)
    bound = 1.5 * (eager - exact).abs().max() + torch.finfo(x.dtype).eps * exact.abs().max()
    assert (found - exact).abs().max() <= bound


def test_neighbouring_channels_are_read_together() -> None:
    text = window_of(depthwise(64, 3, torch.bfloat16, padding=1), 1, 64, 28, 28)
    assert "tl.sum(" not in text and "r = tl.arange(" not in text
    assert text.count("tl.load(conv2d_ptr + x") == 9
    assert text.count("tl.load(conv2d_weight_ptr + ") == 9


def test_rows_are_read_where_they_lie() -> None:
    text = window_of(nn.Conv2d(8, 8, 3, padding=1, groups=8).bfloat16(), 1, 8, 28, 30)
    assert "tl.sum(" not in text and "r = tl.arange(" not in text
    assert text.count("tl.load(input_ptr + ") == text.count("tl.load(conv2d_weight_ptr + ") == 9


LARGE = {  # a lane has 2, 4 and 2 windows
    "pairs": (nn.Conv2d(8, 8, 2, groups=4), (1, 8, 94, 94)),
    "slides": (depthwise(16, 3, torch.bfloat16, padding=1), (2, 16, 68, 68)),
    "strides": (depthwise(16, 3, torch.float32, padding=1, stride=2), (2, 16, 131, 140)),
}


@pytest.mark.parametrize(("case", "loads"), [("slides", 18), ("strides", 15)])
def test_a_lane_loads_what_its_windows_share_once(case: str, loads: int) -> None:
    model, shape = LARGE[case]
    text = window_of(model, *shape)
    assert text.count("tl.load(conv2d_ptr + ") == loads
    assert text.count("tl.load(conv2d_weight_ptr + ") == 9


def test_channels_of_a_group_share_their_window() -> None:
    conv = nn.Conv2d(16, 16, 3, padding=1, groups=4).bfloat16()
    text = window_of(conv, 2, 16, 68, 68)
    assert text.count("tl.load(conv2d_weight_ptr + ") == 4 * 36
    assert text.count("tl.load(input_ptr + ") == 36


def test_windows_slide_along_lines_whatever_the_number_of_images() -> None:
    model, shape = LARGE["slides"]
    x = torch.zeros(shape, dtype=torch.bfloat16)
    images = {"input": {0: torch.export.Dim("images", min=2, max=64)}}
    kernels = rendered(model, x, targets=H100, dynamic_shapes=images).kernels
    texts = [one.text for one in kernels if "combine_sum(" in one.text]
    assert texts and all(text.count("tl.load(conv2d_ptr + ") == 18 for text in texts)


@pytest.mark.parametrize(("kernel", "rows"), [(5, 512), (7, 256)])
def test_long_windows_leave_registers_to_other_warps(kernel: int, rows: int) -> None:
    conv = nn.Conv2d(64, 64, kernel, padding=kernel // 2, groups=64).bfloat16()
    assert f"tl.arange(0, {rows})" in window_of(conv, 8, 64, 112, 112)


def test_channels_of_a_group_that_are_neighbours_have_lanes() -> None:
    model = depthwise(64, 3, torch.bfloat16, padding=1, share=4)
    text = window_of(model, 2, 64, 68, 68)
    assert text.count("tl.load(conv2d_weight_ptr + ") == 36
    assert text.count("tl.load(conv2d_ptr + ") == 6 * 3 * 4


@pytest.mark.parametrize("case", LARGE)
def test_windows_of_a_lane_are_summed_right(case: str) -> None:
    torch.manual_seed(0)
    model, shape = LARGE[case]
    x = torch.randn(shape, dtype=next(model.parameters()).dtype)
    found = torch.as_tensor(aotpack.compile(model, (x,), target="interpreter")(x)).double()
    eager, exact = model(x), copy.deepcopy(model).double()(x.double())
    bound = 1.5 * (eager - exact).abs().max() + torch.finfo(x.dtype).eps * exact.abs().max()
    assert (found - exact).abs().max() <= bound


def test_a_factor_that_may_not_exist_is_read_where_there_is_an_image() -> None:
    class Correlated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.pad(x * x.roll(1, 1), (1, 1)).unfold(1, 3, 1).sum(-1)

    module, x = Correlated(), torch.randn(2, 8, 50)
    model = aotpack.compile(module, (x,), target="interpreter")
    torch.testing.assert_close(model(x), module(x))


@pytest.mark.parametrize("factor", [torch.inf, -torch.inf, torch.nan, 0.0, 3.0])
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_padding_adds_nothing_whatever_the_factor(factor: float, target: str) -> None:
    class Pooled(nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return F.avg_pool2d(x * scale, 3, 1, 1)

    module, x, scale = Pooled(), torch.rand(1, 2, 6, 5) + 0.5, torch.tensor(factor)
    model = aotpack.compile(module, (x, torch.tensor(1.0)), target=target)
    torch.testing.assert_close(model(x, scale), module(x, scale), equal_nan=True)


@pytest.mark.parametrize("length", [1, 65, 1000])
def test_other_rows_have_a_dimension_of_the_tile(length: int) -> None:
    class Rows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).sum(-1)

    kernels = rendered(Rows(), torch.zeros(300, length), targets=H100).kernels
    assert all("combine_sum" not in kernel.text for kernel in kernels)
