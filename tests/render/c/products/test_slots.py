"""The slots of products: rows in place or copied, and what members make of a sum."""

import pytest
import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import functions_of, kernel_text, rendered


class Product(nn.Module):
    """A linear layer, with members behind it and in front of it."""

    def __init__(self, *, scaled: bool = False) -> None:
        super().__init__()
        self.fc, self.scaled = nn.Linear(96, 80), scaled

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.fc(x * 2 if self.scaled else x)
        return y.relu(), y.abs()


def text_of(rows: int, dtype: torch.dtype = torch.float32, *, scaled: bool = False) -> str:
    model = Product(scaled=scaled).to(dtype)
    return kernel_text(rendered(model, torch.zeros(rows, 96, dtype=dtype), targets=(CPU,)))


@pytest.mark.parametrize(
    ("dtype", "in_place"), [(torch.float32, True), (torch.bfloat16, True), (torch.float16, False)]
)
def test_rows_of_types_that_are_multiplied_are_read_where_they_lie(
    dtype: torch.dtype, in_place: bool
) -> None:
    columns = functions_of(text_of(3, dtype), "columns")
    assert ("many = &weight_ptr[96*s + k_first];" in columns) is in_place
    assert ("_many(" in columns) is not in_place  # the copy


def test_a_factor_that_is_computed_is_copied() -> None:
    assert "few = &x_ptr[96*s + k_first];" in functions_of(text_of(3), "columns")
    columns = functions_of(text_of(3, scaled=True), "columns")
    assert "x_ptr[96" not in columns and "_few(" in columns
    assert "* 2.0f" in functions_of(text_of(3, scaled=True), "few")


def test_members_read_a_sum_once_and_each_stores_its_result() -> None:
    columns = functions_of(text_of(3), "columns")
    assert columns.count("const float sum = sums[at];") == 1
    assert "fabsf(t2)" in columns and "t2 < 0 ? 0 : t2" in columns
    assert "out_ptr[80*s + v] = " in columns and "out2_ptr[80*s + v] = " in columns
