"""Convolutions step through their kernel positions, and each step reads neighbouring channels."""

import re

import pytest
import torch
from torch import nn

from aotpack.target import parse_targets
from tests.render.models import rendered, shown

H100 = parse_targets("sm_90")


def product_of(channels: int, kernel: int, *, dtype: torch.dtype = torch.bfloat16) -> str:
    """The product of a convolution after another operator."""
    conv = nn.Conv2d(channels, 32, kernel, padding=kernel // 2, bias=False)
    model = nn.Sequential(nn.Sigmoid(), conv).to(dtype)
    kernels = rendered(model, torch.zeros(2, channels, 9, 11, dtype=dtype), targets=H100).kernels
    (text,) = (shown(one.text) for one in kernels if "tl.dot(" in one.text)
    return text


@pytest.mark.parametrize(("channels", "block"), [(64, 64), (48, 16), (96, 32), (320, 64)])
def test_a_step_keeps_to_one_kernel_position(channels: int, block: int) -> None:
    text = product_of(channels, 3)
    assert "for k_step in range(" in text and "for k_start" not in text
    assert f"k = tl.arange(0, {block})" in text
    assert not re.search(r"k_(row|column) (//|%)", text)


@pytest.mark.parametrize("channels", [3, 24, 40])
def test_few_channels_are_the_outer_digit(channels: int) -> None:
    text = product_of(channels, 3)
    assert "k_step" not in text and "k_column // 9" in text


def test_a_sum_without_digits_has_no_steps() -> None:
    text = product_of(64, 1)
    assert "k_step" not in text and not re.search(r"k_(row|column) //", text)


def test_the_input_of_a_convolution_is_stored_with_its_channels_innermost() -> None:
    assert "64*n + k_column" in product_of(64, 3)


def test_digits_that_the_memory_order_joins_do_not_shorten_steps() -> None:
    """Heads of 80 elements lie side by side where their product reads them."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(640, 640)

        def forward(self, q: torch.Tensor) -> torch.Tensor:
            heads = q.view(1, 1024, 8, 80).transpose(1, 2)
            found = nn.functional.scaled_dot_product_attention(heads, heads, heads)
            return self.out(found.transpose(1, 2).reshape(1, 1024, 640))

    with torch.device("meta"):
        model = Heads().to_empty(device="cpu").bfloat16()
    kernels = rendered(model, torch.zeros(1, 1024, 640, dtype=torch.bfloat16), targets=H100).kernels
    (text,) = (one.text for one in kernels if "kernel_matmul" in one.text)
    (step,) = re.findall(r"range\(0, 640, (\d+)\)", text)
    assert int(step) >= 64
