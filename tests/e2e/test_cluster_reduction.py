"""Rows that several programs share: each has a part, waits for the others, and merges all parts."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import aotpack
from aotpack.target import Target

from .oracle import agree, compile_all
from .test_long_rows import BF16, Rows, numbers, spoiled

H100 = (Target("cuda", 90),)
COLUMNS = 65_600  # parts are no whole number of blocks


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


def lowered(x: torch.Tensor) -> torch.Tensor:
    """Parts that are far below their row, or nothing at all beside it."""
    x[4, : x.shape[1] // 2] = -math.inf
    x[4] -= 1000
    x[5, : x.shape[1] // 2] -= 1000
    return spoiled(x)


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
