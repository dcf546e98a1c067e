"""Scales of codes move behind products; what is no scale of a row of codes stays in front."""

from typing import Any

import pytest
import torch

from aotpack.ir.operations import Matmul
from aotpack.ir.values import Apply, walk
from tests.schedule.programs import scheduled

DEPTH, WIDTH = 256, 64


class Coded(torch.nn.Module):
    """A product with a weight made of codes."""

    def __init__(self, weight: Any, scales: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-9, 9, (WIDTH, DEPTH)).to(torch.int8))
        self.register_buffer("scales", torch.rand(scales).to(torch.bfloat16))
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight(self.codes, self.scales).T


def scaled(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return codes.to(torch.bfloat16) * scales


def rounded(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (codes.float() * scales.float()).to(torch.bfloat16)


def shifted(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (codes.to(torch.bfloat16) - 3) * scales


def multiplies_before(weight: Any, scales: tuple[int, ...], rows: int) -> bool:
    """True if the sums are of weights that are scaled in front."""
    x = torch.zeros(rows, DEPTH, dtype=torch.bfloat16)
    made = scheduled(Coded(weight, scales), x).schedule
    (product,) = (one for one in made.program.operations if isinstance(one, Matmul))
    return any(isinstance(one, Apply) and one.op == "mul" for one in walk((product.rhs,)))


@pytest.mark.parametrize("rows", [1, 8, 100])
def test_the_scale_of_a_row_moves(rows: int) -> None:
    assert not multiplies_before(scaled, (WIDTH, 1), rows)


@pytest.mark.parametrize(
    ("weight", "scales"),
    [(scaled, (1, DEPTH)), (rounded, (WIDTH, 1)), (shifted, (WIDTH, 1))],
)
def test_other_factors_stay(weight: Any, scales: tuple[int, ...]) -> None:
    assert multiplies_before(weight, scales, 1)
