"""Finished kernels that touch the same data become one where fewer bytes move."""

from collections.abc import Callable

import pytest

from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.values import Value
from tests.schedule.fusion.test_fuse import cycle
from tests.schedule.programs import Writer, apply, assert_same, load, replayed, schedule_of

B = Var("b", 1, 64)
SIZES = [{"b": 1}, {"b": 7}, {"b": 64}]
ROW = 40


def centred(w: Writer, x: Buffer, row: int = ROW) -> Callable[..., Value]:
    """A row without its sum, which another kernel could make."""
    total = w.reduction(f"sum_{x.name}", [B], [row], lambda i, r: load(x, i, r))
    return lambda i, j: apply("sub", load(x, i, j), load(total, i))


def norms(count: int, row: int = ROW) -> Program:
    """One operation reads the rows of several tensors, and their sums."""
    w = Writer((B,))
    parts = [centred(w, w.input(f"x{n}", B, row), row) for n in range(count)]

    def value(i: object, j: object) -> Value:
        found = parts[0](i, j)
        for part in parts[1:]:
            found = apply("add", found, part(i, j))
        return found

    return w.program(w.pointwise("y", [B, row], value))


def transposed(side: int) -> Program:
    """Both read x whole: one as it lies, one across."""
    w = Writer((B,))
    x = w.input("x", 48, side)
    y = w.pointwise("y", [48, side], lambda i, j: apply("sin", load(x, i, j)))
    z = w.pointwise("z", [side, 48], lambda j, i: apply("mul", load(x, i, j), 2.0))
    return w.program(y, z)


def late_reduction() -> Program:
    """The elements are used first, then the rows."""
    w = Writer((B,))
    x = w.input("x", B, ROW)
    y = w.pointwise("y", [B, ROW], lambda i, j: apply("exp", load(x, i, j)))
    return w.program(y, w.reduction("sum", [B], [ROW], lambda i, r: load(x, i, r)))


def with_a_product_between() -> Program:
    """Both read x, and the second what a product makes of the first."""
    w = Writer((B,))
    x = w.input("x", 8, 8)
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(x, i, j)))
    z = w.matmul("z", 8, 8, 8, t, w.weight("w", 8, 8))
    y = w.reduction("y", [8], [8], lambda i, r: apply("mul", load(x, i, r), load(z, i, r)))
    return w.program(t, y)


@pytest.mark.row("S:L20", "S:M6", "S:M17")
@pytest.mark.parametrize(
    "make",
    [lambda: norms(2), lambda: norms(3), lambda: norms(5), lambda: transposed(16), late_reduction],
)
def test_kernels_that_share_data_become_one(make: Callable[[], Program]) -> None:
    program = make()
    schedule = schedule_of(program)
    assert len(schedule.kernels) == 1
    for sizes in SIZES:
        assert_same(program, replayed(schedule), sizes)


@pytest.mark.row("S:L20", "S:M6", "S:M17", "S:T3")
@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (lambda: norms(2, row=12_000), 2),  # registers do not hold both rows
        (lambda: transposed(12), 2),  # too narrow for tiles of both directions
        (cycle, 3),  # it would wait for itself
        (with_a_product_between, 3),
    ],
)
def test_kernels_stay_apart(make: Callable[[], Program], kernels: int) -> None:
    program = make()
    schedule = schedule_of(program)
    assert len(schedule.kernels) == kernels
    for sizes in SIZES:
        assert_same(program, replayed(schedule), sizes)
