"""Scans of few long rows, by programs that wait for those before them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.export import Dim

from aotpack.devices import H200
from aotpack.ir.kernels.kernel import LOOK_BACK_GROUP, gpu_variants
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.stages import Decisions
from aotpack.target import parse_targets

from .oracle import agree, compile_all
from .test_long_rows import Rows, numbers, spoiled

BLOCK = 32
LONG = BLOCK * (LOOK_BACK_GROUP + 3) + 5  # two groups, and a block that reaches over the end
SHORT = BLOCK * 7 + 5
REPEATS = 2  # counters are as they were
SMALL = replace(H200, registers=8 * BLOCK)  # on which rows of a few hundred elements are long


def is_chained(compiled: Any) -> bool:
    variants = [v for k in compiled.scheduled.schedule.kernels for v in gpu_variants(k)]
    return any(isinstance(v.tile, ReductionTile) and v.tile.look_back for v in variants)


CASES: dict[str, Callable[..., Any]] = {
    "sum": lambda x: (x * 2).cumsum(1) + x,
    "extremes": lambda x: x.cummax(1),
    "exponentials": lambda x: x.logcumsumexp(1),
    "two": lambda x: (x.cumsum(1), (-x).cummin(1)),
    "a scan of a scan": lambda x: x.cumsum(1).cumsum(1),
    "integers": lambda x: (x * 9).to(torch.int32).cumsum(1),
}


@pytest.mark.row("C:G20")
@pytest.mark.parametrize("case", CASES)
def test_chains_agree(case: str) -> None:
    x = numbers(1, LONG) if case == "sum" else numbers(2, SHORT)
    if case == "extremes":
        x = spoiled(numbers(5, SHORT))[:3]
    compiled = compile_all(Rows(CASES[case]), (x,), gpu=SMALL)
    assert is_chained(compiled)
    for _ in range(REPEATS):
        agree(compiled, (x,))


def test_chains_of_any_length() -> None:
    shapes = {"x": {0: Dim("b", min=1, max=4), 1: Dim("n", min=1, max=SHORT)}}
    compiled = compile_all(Rows(CASES["two"]), (numbers(2, SHORT),), None, shapes, gpu=SMALL)
    assert is_chained(compiled)
    for count, length in ((1, 1), (3, BLOCK), (2, BLOCK + 1), (1, SHORT - 1)):
        x = numbers(count, length).round()
        agree(compiled, (x,))


@pytest.mark.row("C:G20")
def test_many_rows_and_reductions_walk() -> None:
    rows = 2 * SMALL.multiprocessors + 1
    many = compile_all(Rows(CASES["sum"]), (numbers(rows, 5 * BLOCK),), gpu=SMALL)
    assert not is_chained(many)
    share = lambda x: x.cumsum(1) / x.sum(1, keepdim=True)  # noqa: E731
    x = numbers(2, 5 * BLOCK)
    reduced = compile_all(Rows(share), (x,), gpu=SMALL)
    assert not is_chained(reduced)
    agree(reduced, (x,))


@pytest.mark.row("S:N3")
def test_scans_that_wait_have_no_other_forms() -> None:
    def function(x: torch.Tensor) -> Any:
        sums = x.cumsum(1)
        return sums, sums.relu()

    source = Source(Rows(function), (torch.zeros(16, 65_536),))
    options = BuildOptions(parse_targets("sm_90"), decisions=Decisions(4))
    assert Build(source, options).rendered.kernels
