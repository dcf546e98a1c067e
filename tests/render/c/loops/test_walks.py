"""Reductions in C: along rows in lanes, or down neighbouring columns side by side."""

import re

import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import ColumnSum, Total, kernel_text, rendered


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


def test_columns_lie_side_by_side_and_need_no_joining() -> None:
    text = text_of(ColumnSum(), 61, 500)
    assert "const int count = (int)aot_min(64, 500 - start);" in text
    assert "lane + 8]" not in text and re.search(r"double acc\d\[64\];", text)
    assert "aot_parallel(call, ((500 + 63) / 64)," in text


def test_a_scan_goes_through_a_row_in_order_and_its_results_are_copied_in_vectors() -> None:
    lines = text_of(Running(), 30, 1000).splitlines()
    loops = [n for n, line in enumerate(lines) if "int64_t r = 0; r < 1000" in line]
    scan, copy = ("simd" in lines[n - 1] for n in loops)
    assert not scan and copy


def test_a_row_of_one_element_needs_no_position() -> None:
    text = text_of(Running(), 30, 1)
    assert "row3[0] = acc1[0];" in text and "[(r)]" not in text
