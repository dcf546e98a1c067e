"""Images so small that a layer gives one element a side; torch.export takes sizes for 2 or more."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack

CASES: dict[str, tuple[nn.Module, int]] = {  # with the least side
    "convolution": (nn.Conv2d(3, 4, 3), 3),
    "patches": (nn.Conv2d(3, 4, 4, stride=4), 4),
    "depthwise": (nn.Conv2d(3, 6, 3, groups=3), 3),
    "two": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, stride=2)), 5),
    "norm": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)), 3),
    "groups": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU()), 3),
    "means": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 3),
    "pooling": (nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2)), 2),
    "powers": (nn.Sequential(nn.Conv2d(3, 4, 1), nn.LPPool2d(2, 2)), 2),
    "enlarged": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2)), 3),
    "transposed": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 2, 2, 2)), 3),
    "shuffled": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.PixelShuffle(2)), 3),
    "flat": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(2)), 3),
}


def strides_that_count(x: torch.Tensor) -> list[int]:
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


@pytest.mark.parametrize("case", CASES)
def test_images_down_to_one_element(case: str) -> None:
    module, low = CASES[case]
    names = {"b": (1, 5), "h": (low, 12), "w": (low, 12)}
    b, h, w = (Dim(name, min=least, max=most) for name, (least, most) in names.items())
    shapes: Any = ({0: b, 2: h, 3: w},)
    given = (torch.randn(2, 3, 9, 9),)
    model = aotpack.compile(module.eval(), given, dynamic_shapes=shapes, target="interpreter")
    for batch, height, width in ((1, low, low), (1, low + 1, low), (2, low, 9), (5, 12, low)):
        x = torch.randn(batch, 3, height, width)
        found, expected = model(x), module(x)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        assert strides_that_count(found) == strides_that_count(expected)
