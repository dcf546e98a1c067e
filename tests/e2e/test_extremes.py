"""Positions of extremes in rows that are walked in loops: ties, NaN anywhere, signed zeros."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from aotpack.devices import H200

from .oracle import agree, compile_all
from .test_long_rows import Rows, numbers

pytestmark = pytest.mark.usefixtures("for_this_processor")

BLOCK = 2048  # of a loop that reads rows once
LENGTH = 2 * BLOCK + 12  # the last block's groups of neighbours reach over the end
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
# at the edges of groups of 4 and 8, of what the threads load at once, of blocks and of the row
EDGES = (0, 1, 3, 4, 7, 8, 511, 512, 1023, 1024, 2047, 2048, 2055, 3071, 3072, 4095, 4096, 4107)


def positions(x: torch.Tensor) -> Any:
    """All kinds that give positions."""
    return x.argmax(1), x.argmin(1), *x.max(1), *x.min(1)


def with_ties(dtype: torch.dtype) -> torch.Tensor:
    """Rows of small numbers, one of the lowest of the type, one of the highest."""
    torch.manual_seed(0)
    x = torch.randint(1, 90, (4, LENGTH)).to(dtype)
    x[0, [LENGTH - 1, BLOCK + 9, BLOCK + 8]] = 99
    x[1, [LENGTH - 1, 5]] = 0
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    x[2], x[3] = limits.min, limits.max
    return x


def with_an_odd_one(value: float, other: float) -> torch.Tensor:
    """A row for each of the edges, with a value there and everywhere behind it in steps."""
    x = torch.full((len(EDGES), LENGTH), other)
    for row, edge in enumerate(EDGES):
        x[row, edge :: 1 + 5 * row] = value
    return x


@pytest.mark.row("S:inv27", "C:inv20")
@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=str)
def test_the_first_of_equals_is_found(dtype: torch.dtype) -> None:
    x = with_ties(dtype)
    agree(compile_all(Rows(positions), (x,)), (x,))


@pytest.mark.row("S:inv27", "C:inv20")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_nan_infinities_and_zeros_wherever_they_are(dtype: torch.dtype) -> None:
    pairs = (
        (math.nan, 1.0),
        (math.nan, math.inf),
        (math.inf, -math.inf),
        (-math.inf, math.nan),
        (0.0, -0.0),
        (-0.0, 0.0),
        (1.0, 0.0),
    )
    given = [with_an_odd_one(*pair).to(dtype) for pair in pairs]
    compiled = compile_all(Rows(positions), (given[0],))
    for x in given:
        agree(compiled, (x,))


def pools(x: torch.Tensor) -> Any:
    """Maxima of windows; a number behind several NaN, and a window of them alone."""
    return F.max_pool2d(x, 3, 2, 1, return_indices=True), F.adaptive_max_pool2d(x, 4, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_pools_give_the_last_nan_and_the_first_of_other_equals(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    holes, ties = (torch.randint(0, 3, (2, 3, 9, 10)).to(dtype) for _ in range(2))
    holes[torch.rand(holes.shape) < 0.4] = math.nan
    holes[0] = -math.inf
    holes[0, :, :, -1] = math.nan
    compiled = compile_all(Rows(pools), (holes,))
    for x in (holes, ties, torch.full_like(ties, -math.inf), torch.full_like(ties, math.nan)):
        agree(compiled, (x,))


@pytest.mark.row("S:inv27")
def test_rows_of_any_length() -> None:
    shapes = {"x": {1: Dim("n", min=1, max=40_000)}}
    compiled = compile_all(Rows(positions), (numbers(3, 50),), None, shapes)
    for columns in (1, 7, 511, BLOCK - 1, BLOCK, BLOCK + 1, LENGTH):
        x = numbers(3, columns)
        x[0] = -math.inf
        x[1, columns // 2 :] = math.nan
        x[2] = math.inf
        agree(compiled, (x,))


def centred(x: torch.Tensor) -> Any:
    """A second walk, which has the last block in registers."""
    distance = (x - x.mean(1, keepdim=True)).abs()
    return distance.argmin(1), distance.argmax(1)


@pytest.mark.parametrize("function", [positions, centred])
@pytest.mark.parametrize("columns", [3 * 8192, 3 * 8192 + 4])
def test_what_is_read_again(function: Callable[..., Any], columns: int) -> None:
    x = torch.zeros(3, columns)
    x[0, 7::16], x[0, 15::16] = 1, -1
    x[1, [columns - 1, 9000, 8999]] = math.nan
    x[2, -5:] = 6
    agree(compile_all(Rows(lambda x: (*function(x), x.softmax(1)[:, ::512])), (x,)), (x,))


@pytest.mark.row("S:inv27", "C:G19")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64])
@pytest.mark.parametrize("length", [2**13, 2**13 + 8])
def test_parts_of_rows(dtype: torch.dtype, length: int) -> None:
    small = replace(H200, multiprocessors=8, registers=2**12, launch=0.0)
    x = torch.zeros(4, length).to(dtype)
    x[0, [length - 1, 5000, 4999]] = 7
    x[1, [length - 1, 8, 7]] = -7
    if dtype.is_floating_point:
        x[2, [length - 1, 1025, 6000]] = math.nan
        x[3] = -math.inf
        x[3, 2100] = -0.0
    compiled = compile_all(Rows(lambda x: (x.argmax(1), x.argmin(1))), (x,), gpu=small)
    assert any(kernel.runs_in_last_block for kernel in compiled.scheduled.schedule.kernels)
    agree(compiled, (x,))
