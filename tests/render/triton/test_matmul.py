"""Products in Triton: masks where tiles reach over, types of factors and sums, batches."""

import re

import pytest
import torch
from torch import nn

from aotpack.target import Target
from tests.ptx import ptx
from tests.render.models import kernel_text, rendered

BF16 = torch.bfloat16


class Product(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


def text_of(m: int, n: int, k: int, *batch: int, dtype: torch.dtype = BF16) -> str:
    args = torch.zeros(*batch, m, k, dtype=dtype), torch.zeros(*batch, k, n, dtype=dtype)
    return kernel_text(rendered(Product(), *args))


@pytest.mark.parametrize(
    ("sizes", "masks"),
    [
        ((128, 64, 256), set()),
        ((100, 64, 256), {"m"}),
        ((128, 70, 256), {"n"}),
        ((128, 64, 250), {"k_row", "k_column"}),
    ],
)
def test_an_axis_is_masked_where_tiles_do_not_divide_it(
    sizes: tuple[int, int, int], masks: set[str]
) -> None:
    assert set(re.findall(r"(\w+)_mask = ", text_of(*sizes))) == masks


@pytest.mark.parametrize(("dtype", "precise"), [(torch.float32, True), (BF16, False)])
def test_factors_of_float32_say_how_they_are_multiplied(dtype: torch.dtype, precise: bool) -> None:
    """In three parts of bfloat16, which is as precise; short floats have one way only."""
    text = text_of(128, 64, 256, dtype=dtype)
    (dot,) = re.findall(r"tl\.dot\(.*\)", text)
    assert ('input_precision="bf16x6"' in dot) is precise is ("input_precision" in dot)
    assert re.search(r"acc = tl.zeros\(\[\d+, \d+\], tl.float32\)", text)


def test_batches_are_digits_of_the_program_s_number() -> None:
    text = text_of(128, 64, 256, 2, 3)
    assert "g0 = " in text and "g1 = " in text and "% 3" in text
    assert "g0" not in text_of(128, 64, 256)


class Scaled(nn.Module):
    """What is computed in front of a product and behind it is part of its kernel."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2 @ y).relu()


def test_members_are_in_the_loop_before_the_product_and_behind_the_loop_after_it() -> None:
    args = torch.zeros(128, 256, dtype=BF16), torch.zeros(256, 64, dtype=BF16)
    text = kernel_text(rendered(Scaled(), *args))
    loop, behind = text.split("for k_start", 1)[1].split("acc = tl.dot", 1)
    assert "* 2.0" in loop and "* 2.0" not in behind
    assert re.search(r"tl\.maximum\(|relu|> 0|< 0", behind)


def test_one_row_is_loaded_as_a_tile_whose_other_rows_are_masked() -> None:
    """So it is copied as its neighbours are. A row that is repeated crashed Triton for sm_80."""
    args = torch.zeros(1, 8192, dtype=BF16), torch.zeros(8192, 2048, dtype=BF16)
    (kernel,) = rendered(Product(), *args, targets=(Target("cuda", 80),)).kernels
    assert re.search(r"tl\.load\(tl\.broadcast_to\(x_ptr \+ k_row, .*\), mask=m_mask", kernel.text)
    assert "mma.sync" in ptx(kernel, 80)
