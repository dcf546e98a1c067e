"""The loops of reductions in C: along rows in lanes, or neighbouring columns side by side."""

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


def test_rows_are_items_of_their_own() -> None:
    text = text_of(Total(), 30, 1000)
    assert "aot_parallel(call, 30," in text
    assert "start" not in text and "[64]" not in text


def test_columns_lie_side_by_side_and_need_no_joining() -> None:
    text = text_of(ColumnSum(), 61, 500)
    assert "const int count = (int)aot_min(64, 500 - start);" in text
    assert "lane + 8]" not in text and re.search(r"double acc\d\[64\];", text)
    assert "aot_parallel(call, ((500 + 63) / 64)," in text


def test_a_row_of_one_element_needs_no_position() -> None:
    text = text_of(Running(), 30, 1)
    assert "row3[0] = acc1[0];" in text and "[(r)]" not in text
