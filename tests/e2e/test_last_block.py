"""Kernels that the last programs to arrive complete, beside the oracles and in any order."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aotpack.devices import H200
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import INTERPRETER, parse_targets

from .oracle import agree, compile_all
from .test_long_rows import Rows, numbers, spoiled

LONG = 2**13
REPEATS = 3  # counters are as they were
# Rows of a few thousand elements are worth splitting, and no kernel is small.
SMALL = replace(H200, multiprocessors=8, registers=LONG // 2, launch=0.0)


def once(x: torch.Tensor) -> Any:
    """Reductions of rows, of which one has two states."""
    return x.sum(1), x.argmax(1), x.isnan().any(1)


def down(x: torch.Tensor) -> Any:
    """Columns, blocks of which are completed by a program each, and what equal parts leave."""
    return x.sum(0) * 2


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "rows": (once, (4, LONG)),
    "one row": (lambda x: x.logsumexp(1), (1, 4 * LONG + 8)),
    "columns": (down, (411, 128)),
    "moments": (lambda x: x.var(), (4, LONG)),
    "shares": (lambda x: x.softmax(1)[:, ::64], (4, LONG)),
}


@pytest.mark.row("C:G19")
@pytest.mark.parametrize("case", CASES)
def test_the_last_programs_complete_a_launch(case: str) -> None:
    function, shape = CASES[case]
    x = spoiled(numbers(*shape)) if case == "rows" else numbers(*shape)
    compiled = compile_all(Rows(function), (x,), gpu=SMALL)
    completing = [k for k in compiled.scheduled.schedule.kernels if k.runs_in_last_block]
    assert completing and len(completing[0].counters) == 1
    for _ in range(REPEATS):
        agree(compiled, (x,))


def test_a_dynamic_number_of_rows() -> None:
    shapes = {"x": {0: Dim("b", min=1, max=SMALL.multiprocessors - 1)}}
    compiled = compile_all(Rows(once), (numbers(2, LONG),), None, shapes, gpu=SMALL)
    assert any(kernel.runs_in_last_block for kernel in compiled.scheduled.schedule.kernels)
    for count in (1, 5, 2):
        x = numbers(count, LONG)
        agree(compiled, (x,))


WHOLE: dict[str, Callable[..., Any]] = {
    "extremes": lambda x: (x.amax(), x.argmax()),
    "moments": lambda x: x.var(),
    "columns": lambda x: x.sum(0),
    "codes": lambda x: (x / x.abs().amax() * 127).round(),
}


@pytest.mark.row("S:B12")
@pytest.mark.parametrize("case", WHOLE)
def test_a_call_has_as_many_parts_as_its_length(case: str) -> None:
    """From one row to many times what a part has, and about the borders."""
    shapes = {"x": {0: Dim("b", min=1, max=2**16)}}
    compiled = compile_all(Rows(WHOLE[case]), (numbers(300, 64),), None, shapes, gpu=SMALL)
    assert any(kernel.runs_in_last_block for kernel in compiled.scheduled.schedule.kernels)
    for count in (1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 1031):
        agree(compiled, (numbers(count, 64),))


@pytest.mark.row("C:G19", "C:L7")
@pytest.mark.parametrize("case", ["rows", "columns"])
def test_who_arrives_last_decides_no_bit(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, shape = CASES[case]
    x, walk, luck = numbers(*shape), np.ndindex, np.random.default_rng(0)
    compiled = compile_all(Rows(function), (x,), targets=(INTERPRETER,), gpu=SMALL)
    model = compiled.models["interpreter"]
    expected = model(x)

    def shuffled(*grid: int) -> Iterator[Any]:
        places = list(walk(*grid))
        return iter([places[n] for n in luck.permutation(len(places))])

    monkeypatch.setattr(np, "ndindex", shuffled)
    for _ in range(REPEATS):
        found = model(x)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)


def test_what_a_completing_kernel_reads_is_overwritten_after_it() -> None:
    """An update that is small joins no launch before the one whose end reads the old value."""

    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(64))

        def forward(self, x: torch.Tensor, z: torch.Tensor) -> Any:
            exponential, sums = z.exp(), x.sum(-1) * self.state[:4]
            self.state.add_(1)
            return exponential, sums

    source = Source(Counted(), (torch.zeros(4, 2**20), torch.zeros(16)))
    rendered = Build(source, BuildOptions(parse_targets("sm_90"))).rendered
    assert any("sum_with_last_block" in kernel.name for kernel in rendered.kernels)


def test_a_size_has_another_name_than_the_tensors_of_a_launch() -> None:
    source = Source(
        Rows(lambda x: x.sum(1)), (torch.zeros(4, 2**20),), None, ({0: Dim("p0", min=1, max=64)},)
    )
    for kernel in Build(source, BuildOptions(parse_targets("sm_90"))).rendered.kernels:
        compile(kernel.text, kernel.name, "exec")
