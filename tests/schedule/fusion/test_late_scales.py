"""Scales of rows move behind products of few rows; where they may not, norms stay launches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.ir.verify.program import verify
from aotpack.schedule.fusion.late_scales import scale_after_products
from tests.e2e.oracle import agree, compile_all
from tests.render.models import rendered
from tests.schedule.programs import Writer, apply, assert_same, load

DEPTH = 128
BF16 = torch.bfloat16


def normed(
    *,
    rows: int = 2,
    products: int = 1,
    squares: bool = True,
    shows_rows: bool = False,
    shows_scale: bool = False,
    divides: bool = False,
    kind: str = "sum",
) -> Program:
    """Rows over their root mean square, times gains, in products."""
    w = Writer()
    x, gain = w.input("x", rows, DEPTH), w.weight("gain", DEPTH)
    weights = [w.weight(f"w{number}", 64, DEPTH) for number in range(products)]

    def summed(i: Int, r: Int) -> Value:
        return apply("square", load(x, i, r)) if squares else load(x, i, r)

    total = w.reduction("total", [rows], [DEPTH], summed, kind=kind)
    scale = w.pointwise(
        "scale", [rows], lambda i: apply("rsqrt", apply("add", load(total, i), 1e-5))
    )

    def row(i: Int, j: Int) -> Value:
        if divides:
            root = apply("sqrt", apply("add", load(total, i), 1e-5))
            return apply("mul", apply("div", load(x, i, j), root), load(gain, j))
        return apply("mul", apply("mul", load(x, i, j), load(scale, i)), load(gain, j))

    normed_rows = w.pointwise("rows", [rows, DEPTH], row)
    made = [w.matmul(f"p{n}", rows, 64, DEPTH, normed_rows, one) for n, one in enumerate(weights)]
    shown = [*([normed_rows] if shows_rows else []), *([scale] if shows_scale else [])]
    return w.program(*made, *shown)


@pytest.mark.parametrize(
    "options",
    [{}, {"rows": 1}, {"products": 2}, {"divides": True}, {"squares": False}],
    ids=str,
)
def test_a_scale_moves_behind_its_products(options: Mapping[str, Any]) -> None:
    program = normed(**options)
    moved = scale_after_products(program)
    verify(moved)
    assert "rows" not in moved.buffers and "scale" not in moved.buffers
    assert [type(one).__name__ for one in moved.operations[:3]] == [
        "Matmul",
        "Reduction",
        "Pointwise",
    ]
    if options.get("squares", True):
        assert_same(program, moved)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 5},
        {"products": 3},
        {"shows_rows": True},
        {"shows_scale": True},
        {"kind": "max"},
    ],
    ids=str,
)
def test_other_norms_stay(options: Mapping[str, Any]) -> None:
    program = normed(**options)
    assert scale_after_products(program) is program


def test_gains_that_another_method_changes_stay_before_the_product() -> None:
    program = normed()
    assert scale_after_products(program, frozenset({"gain"})) is program
    assert scale_after_products(program, frozenset({"other"})) is not program


def test_rows_of_float16_keep_their_scale() -> None:
    program = normed()
    half = tuple(
        replace(one, operand=DType.FLOAT16) if isinstance(one, Matmul) else one
        for one in program.operations
    )
    changed = replace(program, operations=half)
    assert scale_after_products(changed) is changed


class Gated(nn.Module):
    """A norm, and a gated unit."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(depth))
        self.gate, self.up = (nn.Linear(depth, 96, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        normed = wide.to(x.dtype) * self.gain
        return nn.functional.silu(self.gate(normed)) * self.up(normed)


def test_a_norm_and_a_gated_unit_are_one_launch() -> None:
    x = torch.zeros(1, 1, 256, dtype=BF16)
    (kernel,) = rendered(Gated(256).to(BF16), x).kernels
    assert "row_sum0 = tl.sum(row_sum0, 2)" in kernel.text
    before, _, after = kernel.text.partition("gdc_wait()")
    assert "gain_ptr" in before and "x_ptr +" in after and "x_ptr +" not in before
    assert len(rendered(Gated(256).to(torch.float16), x.half()).kernels) == 2


@pytest.mark.parametrize(
    ("rows", "depth", "dtype"), [(1, 256, BF16), (2, 200, BF16), (3, 136, torch.float32)]
)
def test_results_are_those_of_eager(rows: int, depth: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    args = (3 * torch.randn(rows, 1, depth).to(dtype),)
    agree(compile_all(Gated(depth).to(dtype), args), args)


def test_rows_of_zeros_give_zeros() -> None:
    args = (torch.zeros(1, 128, dtype=BF16),)
    agree(compile_all(Gated(128).to(BF16), args), args)
