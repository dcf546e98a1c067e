"""Products with factors in tf32: kernels that take them, and golden data that admit them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aotpack import compile as compile_model
from aotpack.errors import UsageError
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import CPU, Target
from aotpack.trace.golden.tf32 import tf32_products

H200 = Target("cuda", 90)


class Products(nn.Module):
    """One product of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(16, 24, 3), nn.Linear(24, 40)

    def forward(self, x: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.conv(x)
        return y, self.linear(y.mT.transpose(1, 3)), F.scaled_dot_product_attention(q, q, q)


def example() -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    return torch.randn(2, 16, 6, 7, generator=made), torch.randn(1, 2, 33, 32, generator=made)


def build(target: Target, fp32_precision: str) -> Build:
    torch.manual_seed(0)
    source = Source(Products().eval(), example())
    return Build(source, BuildOptions(targets=(target,), fp32_precision=fp32_precision))


def test_kernels_take_tf32_when_asked() -> None:
    asked, default = (
        [one.text for one in build(H200, name).rendered.kernels if "tl.dot(" in one.text]
        for name in ("tf32", "ieee")
    )
    assert len(asked) == len(default) == 3
    assert all('input_precision="tf32"' in text for text in asked)
    assert not any('"tf32"' in text for text in default)


def test_golden_data_admit_the_errors_of_tf32_alone() -> None:
    asked, default = (build(H200, name).traced.golden for name in ("tf32", "ieee"))
    torch.manual_seed(0)
    module = Products().eval()
    with torch.no_grad(), tf32_products():
        found = module(*example())
        wide = module.double()(*(one.double() for one in example()))
    for error, own, result, exact in zip(
        asked.eager_errors, default.eager_errors, found, wide, strict=True
    ):
        off = float((result.double() - exact).abs().max())
        assert 20 * own < off <= 1.001 * error < 0.02


def test_processors_compute_with_all_bits() -> None:
    asked, default = (build(CPU, name) for name in ("tf32", "ieee"))
    assert asked.traced.golden == default.traced.golden
    assert [k.text for k in asked.rendered.kernels] == [k.text for k in default.rendered.kernels]


def test_factors_that_are_no_numbers_stay() -> None:
    x = torch.tensor([[float("nan"), 1.0], [float("inf"), 1 + 2**-11]])
    with tf32_products():
        found = x @ torch.eye(2)
    assert found[0].isnan().all() and found[1].isnan().tolist() == [False, True]
    with tf32_products():
        assert torch.equal(torch.full((1, 1), 1 + 2**-11) @ torch.ones(1, 1), torch.ones(1, 1))
        assert (x.double()[1:, 1:] @ torch.ones(1, 1).double()).item() == 1 + 2**-11


def test_another_precision_is_refused() -> None:
    with pytest.raises(UsageError, match="fp32_precision='tf64'; accepted are 'ieee' and 'tf32'"):
        compile_model(nn.Linear(2, 2), (torch.ones(1, 2),), target="cpu", fp32_precision="tf64")
