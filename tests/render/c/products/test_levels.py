"""Batch numbers, extents and factors as the texts of templates."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.target import CPU
from tests.render.models import functions_of, kernel_text, rendered


class Product(nn.Module):
    """Batches of products."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y.transpose(-1, -2)


def text_of(*batch: int, dynamic: bool = False) -> str:
    args = torch.zeros(*batch, 40, 24), torch.zeros(*batch, 70, 24)
    axes = {1: Dim("h", min=2, max=8)}
    shapes = {"x": axes, "y": axes} if dynamic else None
    return kernel_text(rendered(Product(), *args, targets=(CPU,), dynamic_shapes=shapes))


@pytest.mark.parametrize(
    ("batch", "digits"),
    [
        ((5,), ["g0 = batch % 5;"]),
        ((2, 3), ["g0 = batch / 3 % 2;", "g1 = batch % 3;"]),
    ],
)
def test_each_batch_axis_is_a_digit_of_the_batch_number(
    batch: tuple[int, ...], digits: list[str]
) -> None:
    text = text_of(*batch)
    assert all(f"const int64_t {digit}" in text for digit in digits)
    assert "g0" in text.split("const int64_t g0", 1)[1].split("\n", 1)[1]  # a factor is found by it


def test_a_product_without_batches_has_no_numbers_of_them() -> None:
    assert "const int64_t g0" not in text_of()


def test_extents_that_a_call_decides_are_named_in_each_function() -> None:
    text = text_of(2, 3, dynamic=True)
    functions = [part for part in text.split("\nAOT_INLINE void ")[1:] if "batch /" in part]
    assert functions
    for part in functions:
        assert "const int64_t size_of_h_ = " in part.split("batch /")[0]


class Scaled(nn.Module):
    """A linear layer on what is computed in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(96, 80)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x * 2)


@pytest.mark.parametrize(("dtype", "rounds"), [(torch.bfloat16, True), (torch.float32, False)])
def test_a_factor_is_rounded_to_the_type_that_is_multiplied(
    dtype: torch.dtype, rounds: bool
) -> None:
    """The other factor is stored so."""
    x = torch.zeros(40, 96, dtype=dtype)
    text = kernel_text(rendered(Scaled().to(dtype), x, targets=(CPU,)))
    assert ("aot_round_bfloat16(" in functions_of(text, "rows")) is rounds
    assert "aot_round_bfloat16(" not in text.split("_tile(", 1)[1]
