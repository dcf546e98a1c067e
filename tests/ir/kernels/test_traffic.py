"""The bytes a launch must move, against a count of the elements that its points touch."""

from collections.abc import Callable
from itertools import product as points

import pytest
import torch
from torch import nn

from aotpack.ir.kernels.access import accesses
from aotpack.ir.kernels.traffic import bytes_of_call, work_of
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Indirect, Int, Var
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.target import parse_targets
from tests.schedule.programs import BF16, F32, I64, Writer, apply, load, schedule_of

B = Var("b", 1, 64)


def mapped(w: Writer) -> Buffer:
    """Two tensors and a vector in, one tensor out."""
    x, y, v = w.input("x", 6, 8), w.input("y", 6, 8, dtype=BF16), w.input("v", 8)
    return w.pointwise(
        "z",
        (6, 8),
        lambda i, j: apply("add", apply("add", load(x, i, j), load(y, i, j)), load(v, j)),
    )


def transposed(w: Writer) -> Buffer:
    x = w.input("x", 6, 8, dtype=BF16)
    return w.pointwise("z", (8, 6), lambda i, j: apply("add", load(x, j, i), 1), dtype=BF16)


def slices(w: Writer) -> Buffer:
    """Two parts of one tensor, and the rest of it not at all."""
    x = w.input("x", 6, 80)
    return w.pointwise("z", (6, 4), lambda i, j: apply("add", load(x, i, j), load(x, i, j + 70)))


def overlapping(w: Writer) -> Buffer:
    """Neighbours: together the whole tensor, once."""
    x = w.input("x", 9)
    return w.pointwise("z", (8,), lambda i: apply("sub", load(x, i + 1), load(x, i)))


def firsts(w: Writer) -> Buffer:
    """Of one tensor all, of the other an element of each row."""
    x, y = w.input("x", 6, 80), w.input("y", 6, 80)
    total = w.reduction("s", [6], [80], lambda i, r: load(x, i, r))
    return w.pointwise("z", (6,), lambda i: apply("add", load(total, i), load(y, i, 0)))


FORMS = [mapped, transposed, slices, overlapping, firsts]


def counted(program: Program) -> int:
    """Bytes of the distinct elements that are touched."""
    (kernel,) = schedule_of(program).kernels
    found: set[tuple[str, bool, tuple[int, ...]]] = set()
    names = [axis.name for axis in kernel.axes]
    for access in accesses(kernel):
        for place in points(*(range(int(axis.extent)) for axis in kernel.axes)):
            at = dict(zip(names, place, strict=True))
            index = tuple(int(part.evaluate(at)) for part in access.index)
            found.add((access.buffer, access.is_store, index))
    return sum(program.buffers[name].dtype.itemsize for name, _, _ in found)


@pytest.mark.row("C:K2")
@pytest.mark.parametrize("form", FORMS)
def test_bytes_are_those_of_the_elements_that_are_touched(form: Callable[[Writer], Buffer]) -> None:
    w = Writer()
    program = w.program(form(w))
    (kernel,) = schedule_of(program).kernels
    assert work_of(kernel, program).moved == Int.of(counted(program))


@pytest.mark.row("C:K2")
def test_a_gather_moves_what_it_takes_and_sizes_stay_sizes() -> None:
    w = Writer((B,))
    table, ids = w.input("table", 1000, 16), w.input("ids", B, dtype=I64)

    def value(i: Int, j: Int) -> object:
        return load(table, Indirect(load(ids, i), Int.of(1000)), j)  # type: ignore[arg-type]

    program = w.program(w.pointwise("z", (B, 16), value, dtype=F32))  # type: ignore[arg-type]
    (kernel,) = schedule_of(program).kernels
    moved = work_of(kernel, program).moved
    for b in (1, 7, 64):
        assert moved.evaluate({"b": b}) == b * 8 + b * 16 * 4 + b * 16 * 4


class Repeated(nn.Module):
    """Two equal layers, and a branch with two parts."""

    def __init__(self, branches: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(2))
        self.branches = branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        if not self.branches:
            return x
        parts = (lambda x: x.sum(1, keepdim=True) * x), (lambda x: x + 1)
        return torch.cond(x.sum() > 0, *parts, (x,))


@pytest.mark.parametrize("branches", [False, True])
def test_a_call_counts_each_launch(branches: bool) -> None:
    """Also those of one kernel that runs twice, and of all parts of a branch."""
    source = Source(Repeated(branches), (torch.randn(1, 64),))
    made = build_of(source, BuildOptions(targets=parse_targets("sm_90")))
    step, row = 64 * 64 * 4 + 2 * 64 * 4, 64 * 4
    assert made.rendered.moved.keys() == {"sm_90"}
    found = int(made.rendered.moved["sm_90"])
    assert found == int(bytes_of_call(made.scheduled.on(90)))
    if branches:
        assert found > 2 * step + 4 * row  # each part reads and writes a row
    else:
        assert {int(kernel.work.moved) for kernel in made.rendered.kernels} == {step}
        assert found == 2 * step
