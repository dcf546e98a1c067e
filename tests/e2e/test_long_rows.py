"""Rows that are walked in loops, at lengths around a block's, and rows split over programs."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.target import Target

from .oracle import TARGETS, agree, compile_all

BF16 = torch.bfloat16
BLOCK = 8192  # of rows that are read again, at 16 bits


class Rows(nn.Module):
    """What is computed from rows; ``x`` has NaN, infinities and equals in places."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def again(x: torch.Tensor) -> Any:
    """Each row is needed after its reduction."""
    return x.softmax(1), F.layer_norm(x, (x.shape[1],))


def once(x: torch.Tensor) -> Any:
    """Nothing but the reductions needs the row."""
    return x.sum(1), x.amax(1), x.argmax(1), x.argmin(1), x.logsumexp(1)


def twice(x: torch.Tensor) -> Any:
    """A reduction of what another one changed, where the last block is in registers."""
    distance = x - x.mean(1, keepdim=True) * 3
    return distance.logsumexp(1), distance.var(1), x.softmax(1)[:, ::512]


def numbers(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(columns)
    return torch.randn(rows, columns).to(dtype)


def spoiled(x: torch.Tensor) -> torch.Tensor:
    """Ties, NaN and infinities at the edges of groups and blocks."""
    last = x.shape[1] - 1
    x[0, [last, last // 2, last // 3]] = 99
    x[1, [last, last // 2]] = math.nan
    x[2] = -math.inf
    x[3, [last // 2, 0]] = math.inf
    return x


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        (3 * BLOCK - 1, BF16),
        (3 * BLOCK, BF16),
        (3 * BLOCK + 1, torch.float32),
    ],
    ids=str,
)
def test_rows_that_are_read_again(columns: int, dtype: torch.dtype) -> None:
    x = numbers(2, columns, dtype)
    agree(compile_all(Rows(again), (x,)), (x,))


@pytest.mark.parametrize("columns", [3 * BLOCK + 8, 20_000])
def test_reductions_of_rows_that_are_read_again(columns: int) -> None:
    x = numbers(2, columns) - 50  # what stands for missing elements would be the greatest
    agree(compile_all(Rows(twice), (x,)), (x,))


@pytest.mark.parametrize("columns", [4097, 8192])
def test_rows_that_are_read_once(columns: int) -> None:
    x = spoiled(numbers(4, columns))
    agree(compile_all(Rows(once), (x,)), (x,))


@pytest.mark.parametrize("function", [again, once])
def test_rows_of_any_length(function: Callable[..., Any]) -> None:
    shapes = {"x": {1: Dim("n", min=1, max=40_000)}}
    targets = (*TARGETS, Target("cuda", 90))  # clusters share rows
    compiled = compile_all(Rows(function), (numbers(2, 50),), None, shapes, targets=targets)
    for columns in (1, BLOCK, BLOCK + 1, 20_000):
        x = numbers(2, columns)
        agree(compiled, (x,))


def test_rows_that_are_split() -> None:
    x = spoiled(numbers(4, 2**18 + 56))
    compiled = compile_all(Rows(lambda x: (*once(x), x.log_softmax(1)[:, ::4096])), (x,))
    assert len(compiled.scheduled.schedule.kernels) > 2
    agree(compiled, (x,))


def test_squares_that_overflow_are_infinite() -> None:
    """And no NaN, as 0 times infinity would be, where an accumulator has no element yet."""
    targets = (*TARGETS, Target("cuda", 90))
    shapes = {"x": {0: Dim("b", min=1, max=3000)}}
    compiled = compile_all(
        Rows(lambda x: x.var()), (numbers(37, 90),), None, shapes, targets=targets
    )
    for rows in (1, 16, 257):
        x = numbers(rows, 90)
        x[rows // 2, 3] = 1e30
        agree(compiled, (x,))


EMPTY: dict[str, Callable[..., Any]] = {
    "greatest": lambda x: F.pad(x, (0, 30_000), value=-math.inf).unfold(0, 9000, 3000).argmax(1),
    "least": lambda x: F.pad(x, (0, 30_000), value=math.inf).unfold(0, 9000, 3000).argmin(1),
}


@pytest.mark.parametrize("case", EMPTY)
def test_the_first_of_a_row_behind_the_end(case: str) -> None:
    """Windows that are padding alone: their loops have no step."""
    targets = (*TARGETS, Target("cuda", 90))
    torch.manual_seed(0)
    x = torch.randn(4000)
    compiled = compile_all(Rows(EMPTY[case]), (x,), targets=targets)
    for one in (x, torch.full_like(x, -math.inf), torch.full_like(x, math.inf)):
        agree(compiled, (one,))


class Positions(nn.Module):
    """Parts of whole rows, so that some are behind the end."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("row", torch.arange(1024.0))

    def forward(self, x: torch.Tensor) -> Any:
        return (x + self.row).argmax(), (x + self.row).argmin(), (x == 1).to(torch.uint8).argmax()


def test_the_first_of_equals_that_are_the_identity() -> None:
    targets = (*TARGETS, Target("cuda", 90))
    shapes = {"x": {0: Dim("b", min=1, max=100_000)}}
    compiled = compile_all(Positions(), (numbers(50, 1024),), None, shapes, targets=targets)
    for rows in (1, 41, 50):
        for number in (-math.inf, math.inf, 0.0):
            agree(compiled, (torch.full((rows, 1024), number),))
