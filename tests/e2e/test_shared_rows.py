"""Rows that several programs share: each has a part, waits for the others, and merges all parts."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import aotpack
from aotpack.ir.schedule import ReductionTile
from aotpack.target import Target

from .oracle import agree, compile_all
from .test_long_rows import BF16, Rows, numbers, spoiled

H100 = (Target("cuda", 90),)
COLUMNS = 65_600  # parts are no whole number of blocks
MANY = 133  # rows that are not split over launches


def normed(x: torch.Tensor) -> Any:
    """Mean and variance."""
    return F.layer_norm(x, (x.shape[1],))


def shares(x: torch.Tensor) -> Any:
    """Maximum and sum of exponentials."""
    return x.softmax(1)


def marked(x: torch.Tensor) -> Any:
    """Positions, flags, and two reductions of which the second needs the first."""
    first = torch.arange(x.shape[1]) == x.argmax(1, keepdim=True)
    small = (x * x).sum(1, keepdim=True) + (x - x.amin(1, keepdim=True)).prod(1, keepdim=True)
    return first, x / small, x.isnan().any(1, keepdim=True) | (x > 0)


@pytest.mark.row("C:B18", "C:G18")
@pytest.mark.parametrize("function", [normed, shares, marked])
def test_programs_that_share_a_row_agree(function: Callable[..., Any]) -> None:
    x = spoiled(numbers(5, COLUMNS)) if function is marked else numbers(2, COLUMNS)
    x = lowered(numbers(6, COLUMNS, BF16)) if function is shares else x
    compiled = compile_all(Rows(function), (x,), targets=H100)
    assert any(binary.num_ctas > 1 for binary in compiled.precompiled.binaries)
    agree(compiled, (x,))


class Tensors(Rows):
    """A function of several tensors."""

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def weighted(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    """Mean and variance, and what is the same for all rows."""
    return F.layer_norm(x, (x.shape[1],), w, b)


def residual(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
    """Two rows a turn."""
    return F.rms_norm(x + y, (x.shape[1],), w, 1e-6)


def chosen(x: torch.Tensor, w: torch.Tensor) -> Any:
    """Three walks, the last with what is the same for all rows, and two sums for each."""
    shares = x.softmax(1)
    return shares * w, shares.mean(1), (shares - shares.mean(1, keepdim=True)).abs().amax(1)


def alone(x: torch.Tensor) -> Any:
    """Nothing in common."""
    return x.log_softmax(1)


def lowered(x: torch.Tensor) -> torch.Tensor:
    """Parts that are far below their row, or nothing at all beside it."""
    x[4, : x.shape[1] // 2] = -math.inf
    x[4] -= 1000
    x[5, : x.shape[1] // 2] -= 1000
    return spoiled(x)


@pytest.mark.row("C:B18", "C:G18")
@pytest.mark.parametrize(
    ("function", "columns", "dtype"),
    [
        (weighted, 49_216, BF16),
        (residual, 24_640, torch.float32),
        (chosen, 24_640, torch.float32),
        (alone, 32_800, torch.float32),
    ],
)
def test_rows_taken_in_turn_agree(
    function: Callable[..., Any], columns: int, dtype: torch.dtype
) -> None:
    x = numbers(MANY, columns, dtype)
    shapes: dict[Any, list[tuple[int, ...]]] = {
        weighted: [(columns,)] * 2,
        residual: [(MANY, columns), (columns,)],
        chosen: [(columns,)],
    }
    others = (torch.randn(size).to(dtype) for size in shapes.get(function, []))
    args = (lowered(x) if function in (chosen, alone) else x, *others)
    compiled = compile_all(Tensors(function), args, targets=H100)
    (kernel,) = compiled.scheduled.schedule.kernels
    *_, tile = (v.tile for v in kernel.variants if v.arch_low <= 90 <= v.arch_high)
    assert isinstance(tile, ReductionTile) and 0 < tile.resident < MANY
    agree(compiled, args)


@pytest.mark.gpu
@pytest.mark.row("C:inv23")
def test_ten_thousand_launches_back_to_back_beside_other_work() -> None:
    x = numbers(37, COLUMNS, BF16).cuda()
    model = aotpack.compile(Rows(shares), (x.cpu(),))
    expected, other = model(x), torch.randn(2048, 2048, device="cuda")
    beside = torch.cuda.Stream()
    differing = torch.zeros((), device="cuda", dtype=torch.int64)
    for number in range(10_000):
        if number % 16 == 0:
            with torch.cuda.stream(beside):
                other = other @ other * 1e-3
        differing += (model(x) != expected).sum()
    assert differing.item() == 0
