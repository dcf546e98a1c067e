"""What each kind of kernel looks like: models of a few lines, texts in ``tests/golden/render``."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.target import CPU
from tests.schedule.programs import Writer, apply, load

from .models import (
    Attended,
    Collected,
    ColumnSum,
    Concatenated,
    Embedded,
    Gelu,
    Normed,
    Projection,
    Softmax,
    Total,
    entry_of,
    functions_of,
    kernel_text,
    rendered,
    rendered_program,
    shown,
)

BF16 = torch.bfloat16
ON_CPU = (CPU,)
Golden = Callable[[str, str], None]


@pytest.mark.row("C:H1", "C:H17")
def test_gelu(golden: Golden) -> None:
    golden(kernel_text(rendered(Gelu(), torch.zeros(5, 7), torch.zeros(7, dtype=BF16))), "py")


@pytest.mark.row("C:G3", "C:H17")
def test_softmax(golden: Golden) -> None:
    golden(kernel_text(rendered(Softmax(), torch.zeros(64, 1000))), "py")


@pytest.mark.row("C:A12", "C:G17")
def test_softmax_dynamic(golden: Golden) -> None:
    axes = {0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=512)}
    product = rendered(Softmax(), torch.zeros(4, 6), dynamic_shapes={"x": axes})
    promised, other = product.kernels  # for multiples of a vector, and for the rest
    assert [arg.multiple for arg in promised.args][-1] > other.args[-1].multiple
    golden(kernel_text(replace(product, kernels=(other,))), "py")


@pytest.mark.row("C:G4", "C:H3")
def test_looped_sum(golden: Golden) -> None:
    golden(kernel_text(rendered(Total(), torch.zeros(3, 30_011))), "py")


@pytest.mark.row("C:C7")
def test_column_sum(golden: Golden) -> None:
    golden(kernel_text(rendered(ColumnSum(), torch.zeros(61, 512))), "py")


@pytest.mark.row("C:G10", "C:inv17")
def test_layer_norm(golden: Golden) -> None:
    x = torch.zeros(8, 768, dtype=BF16)
    golden(kernel_text(rendered(Normed(768).to(BF16), x, x)), "py")


def test_embedding(golden: Golden) -> None:
    golden(kernel_text(rendered(Embedded(), torch.zeros(4, 8, dtype=torch.int64))), "py")


def test_index_add(golden: Golden) -> None:
    n = torch.zeros(5, dtype=torch.int64)
    product = rendered(Collected(), torch.zeros(100, 32), n, torch.zeros(5, 32))
    golden(kernel_text(replace(product, kernels=product.kernels[-1:])), "py")


@pytest.mark.row("S:H4", "S:H6")
def test_cat(golden: Golden) -> None:
    golden(kernel_text(rendered(Concatenated(), torch.zeros(4, 3), torch.zeros(4, 5))), "py")


@pytest.mark.row("S:G1", "S:G2", "C:I1", "C:I4", "C:inv29")
def test_linear_relu(golden: Golden) -> None:
    x = torch.zeros(128, 256, dtype=BF16)
    product = rendered(Projection(256, 512).to(BF16), x)
    golden(kernel_text(product), "py")


@pytest.mark.row("S:G1")
def test_attention(golden: Golden) -> None:
    x = torch.zeros(1, 2, 100, 64, dtype=BF16)
    golden(kernel_text(rendered(Attended(), x, x, x)), "py")


class Decoded(nn.Module):
    """Queries of one position over a cache; two heads share keys and values."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class Centered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.amax(1, keepdim=True)


class Running(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


class Unrelated(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp(), y.sin()


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1


def test_convolution(golden: Golden) -> None:
    model = nn.Sequential(nn.Sigmoid(), nn.Conv2d(64, 64, 3, padding=1, bias=False)).bfloat16()
    product = rendered(model, torch.zeros(1, 64, 56, 56, dtype=BF16))
    (text,) = (shown(one.text) for one in product.kernels if "tl.dot(" in one.text)
    golden(text, "py")


def test_decode_attention(golden: Golden) -> None:
    q, cache = torch.zeros(1, 4, 1, 64, dtype=BF16), torch.zeros(1, 2, 2048, 64, dtype=BF16)
    golden(kernel_text(rendered(Decoded(), q, cache, cache)), "py")


def test_cluster_reduction(golden: Golden) -> None:
    golden(kernel_text(rendered(Centered(), torch.zeros(64, 65_600, dtype=BF16))), "py")


def test_row_pipeline(golden: Golden) -> None:
    """Each element's share of its row's sum."""
    w = Writer()
    x = w.input("x", 4096, 65_536)
    s = w.reduction("s", [4096], [65_536], lambda i, r: load(x, i, r))
    y = w.pointwise("y", x.shape, lambda i, j: apply("div", load(x, i, j), load(s, i)))
    golden(entry_of(kernel_text(rendered_program(w.program(y)))), "py")


def test_look_back_scan(golden: Golden) -> None:
    golden(kernel_text(rendered(Running(), torch.zeros(16, 65_536))), "py")


def test_horizontal_launch(golden: Golden) -> None:
    golden(kernel_text(rendered(Unrelated(), torch.zeros(1000), torch.zeros(700))), "py")


def test_last_block_launch(golden: Golden) -> None:
    golden(kernel_text(rendered(Total(), torch.zeros(2, 2**20))), "py")


def test_wrapper(golden: Golden) -> None:
    """Sizes that a call decides, and a branch; lines of models are not counted."""
    product = rendered(Chosen(), torch.zeros(4, 8), dynamic_shapes={"x": {0: Dim("b", max=64)}})
    golden(shown(re.sub(r"\.py:\d+", ".py", product.wrapper)), "py")


def test_loop_in_c(golden: Golden) -> None:
    x, y = torch.zeros(5, 7), torch.zeros(7, dtype=BF16)
    golden(kernel_text(rendered(Gelu(), x, y, targets=ON_CPU)), "c")


def test_reduction_in_c(golden: Golden) -> None:
    product = rendered(Total(), torch.zeros(64, 1000), targets=ON_CPU)
    golden(functions_of(kernel_text(product), "run"), "c")


def test_matmul_in_c(golden: Golden) -> None:
    product = rendered(Projection(256, 512), torch.zeros(128, 256), targets=ON_CPU)
    golden(functions_of(kernel_text(product), "tile"), "c")


def test_decode_attention_in_c(golden: Golden) -> None:
    q, cache = torch.zeros(1, 4, 1, 64), torch.zeros(1, 2, 128, 64)
    product = rendered(Decoded(), q, cache, cache, targets=ON_CPU)
    golden(functions_of(kernel_text(product), "heads"), "c")
