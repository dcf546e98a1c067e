"""A tensor reduced to one number behind a row reduction: one kernel for its rows, one for them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from aotpack.schedule.program.split.row_aligned_split import SHORTEST_ROW
from tests.e2e.models import Function
from tests.e2e.oracle import agree, compile_all
from tests.schedule.programs import scheduled


def reads_of_x(function: Callable[..., Any], *args: torch.Tensor) -> tuple[int, int]:
    """(kernels, those that read x)."""
    made = scheduled(Function(function, len(args)), *args).schedule
    return len(made.kernels), sum("x" in kernel.reads for kernel in made.kernels)


@pytest.mark.row("S:B13", "S:B22")
@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        (lambda x, y: (x.softmax(1) * y.abs()).sum(), 2),
        (lambda x, y: F.layer_norm(x, (40,)).square().mean(), 2),
        (lambda x, y: (x - x.amax(1, keepdim=True)).argmin(), 2),
        (lambda x, y: (x * y - (x * y).mean(1, keepdim=True)).var(), 2),
        (
            lambda x, y: ((x - x.amax(1, True)) * x.abs().sum(1, True)).sum(),
            2,
        ),  # two rows that agree
    ],
)
def test_rows_are_read_once(function: Callable[..., Any], kernels: int) -> None:
    x, y = torch.randn(7, 40), torch.randn(7, 40)
    assert reads_of_x(function, x, y) == (kernels, 1)
    compiled = compile_all(Function(function, 2), (x, y), dynamic_shapes=DYNAMIC)
    for rows in (7, 1, 2):
        agree(compiled, (x[:rows], y[:rows]))


DYNAMIC = {"x": {0: Dim("b", max=9)}, "y": {0: Dim("b", max=9)}}


@pytest.mark.row("S:B13", "S:B22")
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: (x - x.amax(1, keepdim=True)).sum(), (7, SHORTEST_ROW - 1)),
        (lambda x: (x - x.amax(0, keepdim=True)).sum(), (40, 7)),  # columns are no rows
        (lambda x: ((x - x.amax(1, True)) * x.sum(0)).sum(), (40, 48)),  # rows and columns
        (lambda x: (x - x.amax(1, keepdim=True)).sum(0), (7, 40)),  # more than one number
    ],
)
def test_left_whole(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    made = scheduled(Function(function, 1), torch.zeros(shape)).schedule
    assert not [name for name in made.program.buffers if name.endswith("_part")]
