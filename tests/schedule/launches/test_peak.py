"""Launches in the order of the smallest peak; equal and hardly lower peaks keep the user's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aotpack.ir.program import Buffer, Program
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.launches import peak
from aotpack.schedule.launches.order import order_kernels
from aotpack.schedule.launches.peak import _by_depth, _by_descent, _by_least_peak, _estimate, _flow
from tests.e2e.oracle import agree, compile_all
from tests.schedule.launches.test_order import _step, assert_topological
from tests.schedule.programs import Writer, load, schedule_of


def products_then_sums(widths: list[int]) -> Program:
    """All products first, as the user wrote it, then the sums of the columns of each."""
    w = Writer()
    x = w.input("x", 64, 8)
    weights = [w.weight(f"w{n}", width, 8) for n, width in enumerate(widths)]
    wide = [w.matmul(f"a{n}", 64, p.shape[0], 8, x, p) for n, p in enumerate(weights)]
    sums = [
        w.reduction(f"s{n}", [a.shape[1]], [64], lambda j, r, a=a: load(a, r, j))
        for n, a in enumerate(wide)
    ]
    return w.program(*sums)


def stored(program: Program) -> list[str]:
    schedule = schedule_of(program)
    verify_schedule(schedule)
    return [kernel.stored[0] for kernel in schedule.kernels]


@pytest.mark.row("S:L24", "S:L14")
@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ([8192] * 3, ["a0", "s0", "a1", "s1", "a2", "s2"]),  # 2 MB alive, not 6
        ([8192], ["a0", "s0"]),
        ([16] * 3, ["a0", "a1", "a2", "s0", "s1", "s2"]),  # nothing worth moving a launch for
        ([2**17, 2**12], ["a0", "a1", "s0", "s1"]),  # 33 MB or 32 MB
    ],
)
def test_the_order_of_the_smallest_peak(widths: list[int], expected: list[str]) -> None:
    assert stored(products_then_sums(widths)) == expected


@pytest.mark.row("S:L24")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 3)), max_size=12))
def test_candidates_are_orders(steps: list[tuple[int, int, int]]) -> None:
    w = Writer()
    known: list[Buffer] = [w.input("x", 4, 4)]
    for number, (a, b, kind) in enumerate(steps):
        known.append(_step(w, f"t{number}", known[a % len(known)], known[b % len(known)], kind))
    program = w.program(*known[-3:])
    kernels = order_kernels(program, fuse(program))
    flow = _flow(program, kernels)
    for make in (_by_least_peak, _by_depth, _by_descent):
        found = make(flow)
        assert sorted(found) == [*range(len(kernels))], make
        assert_topological(tuple(kernels[position] for position in found), program)


@pytest.mark.row("S:L24")
def test_the_estimate_counts_what_lives_at_once() -> None:
    program = products_then_sums([64, 128])
    kernels = order_kernels(program, fuse(program))
    flow = _flow(program, kernels)
    one, other = 64 * 64 * 4, 64 * 128 * 4
    assert _estimate(flow, [0, 1, 2, 3]) == one + other
    assert _estimate(flow, [0, 2, 1, 3]) == other


class Branches(nn.Module):
    """Three branches that are wide in the middle, written layer by layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(8, 96, bias=False) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(96, 4, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = [layer(x.sin() * n) for n, layer in enumerate(self.up)]
        first, second, third = (layer(a) for layer, a in zip(self.down, wide, strict=True))
        return first + second * third


@pytest.mark.row("S:L24")
def test_answers_stay_and_less_memory_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 8)
    before = compile_all(Branches(), (x,)).precompiled.rendered.peak_bytes
    monkeypatch.setattr(peak, "LEAST", 0)
    compiled = compile_all(Branches(), (x,))
    assert compiled.precompiled.rendered.peak_bytes < 0.7 * before
    agree(compiled, (x,))
