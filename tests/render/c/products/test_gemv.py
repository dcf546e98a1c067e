"""Products with few rows: dot products with each column, whichever factor is the short one."""

import pytest
import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import functions_of, kernel_text, rendered


def text_of(rows: int, columns: int) -> str:
    model = nn.Linear(96, columns, bias=False)
    return kernel_text(rendered(model, torch.zeros(rows, 96), targets=(CPU,)))


@pytest.mark.parametrize(
    ("rows", "columns", "few", "many", "place"),
    [(3, 80, "input", "weight", "80*s + v"), (80, 3, "weight", "input", "3*v + s")],
)
def test_the_short_factor_is_kept_and_the_long_one_read_once_in_order(
    rows: int, columns: int, few: str, many: str, place: str
) -> None:
    body = functions_of(text_of(rows, columns), "columns")
    assert f"few = &{few}_ptr[96*s + k_first];" in body
    assert f"many = &{many}_ptr[96*s + k_first];" in body
    assert f"out_ptr[{place}] = sum;" in body
    assert "const int64_t k_extent = 96, s_extent = 3;" in body


def test_products_with_many_rows_and_columns_are_not_of_this_kind() -> None:
    assert "_columns(" not in text_of(80, 80)
