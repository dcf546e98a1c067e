"""Reductions in C: what a walk over rows computes, and what it leaves for the next."""

import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import Total, kernel_text, rendered


class Running(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


def text_of(model: nn.Module, *shape: int) -> str:
    return kernel_text(rendered(model, torch.zeros(shape), targets=(CPU,)))


def test_a_row_is_walked_in_lanes_that_are_joined_behind_it() -> None:
    text = text_of(Total(), 30, 1000)
    assert "for (; r_block + 16 <= 1000; r_block += 16) {" in text
    assert "acc1[lane + 8]" in text and "out_ptr[x] = " in text
    assert "aot_parallel(call, 30," in text


def test_a_scan_goes_through_a_row_in_order_and_its_results_are_copied_in_vectors() -> None:
    lines = text_of(Running(), 30, 1000).splitlines()
    loops = [n for n, line in enumerate(lines) if "int64_t r = 0; r < 1000" in line]
    scan, copy = ("simd" in lines[n - 1] for n in loops)
    assert not scan and copy


class Standardised(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.exp() - x.exp().mean(1, keepdim=True)).cos()


def test_what_is_dear_and_needed_again_lies_in_a_row_buffer() -> None:
    text = text_of(Standardised(), 30, 1000)
    assert text.count("aot_exp_float32") == 2  # a vector of lanes, and the rest of a row
    assert "float *const row" in text
    assert "*const row" not in text_of(Total(), 30, 1000)
