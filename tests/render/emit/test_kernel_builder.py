"""Offsets are 64 bits wide exactly when 32 might not do."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.dtypes import DType
from tests.render.models import Projection, rendered


def rows(high: int) -> tuple[str, list[DType]]:
    """A kernel over [b, 1024] for b up to ``high``: its text, and the types of its sizes."""
    axes = {"input": {0: Dim("b", min=1, max=high)}}
    product = rendered(nn.Tanh(), torch.zeros(2, 1024), dynamic_shapes=axes)
    kernel = product.kernels[0]
    return kernel.text, [arg.dtype for arg in kernel.args if not arg.is_pointer]


@pytest.mark.row("C:D1", "C:inv4")
def test_small_tensors_use_32_bits() -> None:
    text, sizes = rows(1000)
    assert "int64" not in text and sizes == [DType.INT32]


@pytest.mark.row("C:D1", "C:D2", "C:H6", "C:inv4")
def test_tensors_of_two_billion_elements_use_64_bits() -> None:
    text, sizes = rows(2**21)
    assert "tl.program_id(0).to(tl.int64)" in text and sizes == [DType.INT64]


@pytest.mark.row("C:D2", "C:inv4")
@pytest.mark.parametrize(("high", "wide"), [(1000, False), (2**22, True)])
def test_products_follow_the_same_rule(high: int, wide: bool) -> None:
    axes = {"x": {0: Dim("b", min=1, max=high)}}
    product = rendered(Projection(64, 1024), torch.zeros(2, 64), dynamic_shapes=axes)
    assert all((".to(tl.int64)" in kernel.text) is wide for kernel in product.kernels)


class Squares(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.arange(100_000) * 100_000 + x


@pytest.mark.row("C:A16", "C:D1", "C:inv4")
def test_numbers_computed_from_indices_may_need_64_bits() -> None:
    product = rendered(Squares(), torch.zeros(1, dtype=torch.int64))
    assert "tl.program_id(0).to(tl.int64)" in product.kernels[0].text


class Ratios(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.floor(x / y), x / (y + 1)


@pytest.mark.row("C:L3")
def test_cheap_forms_never_decide_a_jump() -> None:
    x = torch.ones(64, dtype=torch.bfloat16)
    (kernel,) = rendered(Ratios(), x, x).kernels
    divisions = [line.split(" = ")[1] for line in kernel.text.splitlines() if " = t" in line]
    assert [text for text in divisions if "div_rn" in text] == ["tl.div_rn(t1, t2)"]
    assert [text for text in divisions if " / " in text] == ["t1 / t6"]
