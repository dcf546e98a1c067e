"""Lifetimes and in-place results."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from aotpack.ir.kernels.kernel import Schedule, launches
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from tests.schedule.programs import BF16, Writer, apply, load, schedule_of

B = Var("b", 1, 64)


def assert_lifetimes_hold(schedule: Schedule) -> None:
    """Nothing is read after its life; a storage has one living buffer, taken over at a launch."""
    lives = {life.buffer: life for life in schedule.lifetimes}
    assert len(lives) == len(schedule.lifetimes)
    steps = enumerate(launches(schedule.kernels))
    for position, kernel in ((step, kernel) for step, together in steps for kernel in together):
        for name in kernel.reads:
            if name in lives:
                assert lives[name].first < position <= lives[name].last, name
        for name in kernel.stored:
            assert name in schedule.program.outputs or lives[name].first == position, name
    by_storage: dict[str, list[tuple[int, int]]] = {}
    for life in schedule.lifetimes:
        by_storage.setdefault(life.storage, []).append((life.first, life.last))
    for spans in by_storage.values():
        for (_, last), (first, _) in pairwise(spans):
            assert last <= first


def chain(width: int = 8, last: Callable[..., object] | None = None) -> Program:
    """Two products, each with a row sum that its own scaling reads: four kernels or more."""
    w = Writer((B,))
    x, w1, w2 = w.input("x", B, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8)
    y = w.matmul("y", B, 8, 8, x, w1)
    sums = w.reduction("sums", [B], [8], lambda i, r: load(y, i, r))
    t = w.pointwise("t", [B, 8], lambda i, j: apply("div", load(y, i, j), load(sums, i)))
    z = w.matmul("z", B, 8, 8, t, w2)
    return w.program(z)


@pytest.mark.row("S:O1", "S:K3", "S:L26", "C:F25")
def test_result_overwrites_a_dying_operand() -> None:
    schedule = schedule_of(chain())
    assert_lifetimes_hold(schedule)
    assert {life.buffer: life.storage for life in schedule.lifetimes} == {"y": "y", "t": "y"}


def shifted(w: Writer) -> Program:
    """Each element of ``t`` is made of another element of ``y``: another program may have it."""
    x, w1, w2 = w.input("x", 8, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8)
    y = w.matmul("y", 8, 8, 8, x, w1)
    sums = w.reduction("sums", [8], [8], lambda i, r: load(y, i, r))
    t = w.pointwise(
        "t", [8, 8], lambda i, j: apply("exp", apply("add", load(y, 7 - i, j), load(sums, i)))
    )
    return w.program(w.matmul("z", 8, 8, 8, t, w2))


def still_read(w: Writer) -> Program:
    x, w1, w2 = w.input("x", 8, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8)
    y = w.matmul("y", 8, 8, 8, x, w1)
    sums = w.reduction("sums", [8], [8], lambda i, r: load(y, i, r))
    t = w.pointwise("t", [8, 8], lambda i, j: apply("div", load(y, i, j), load(sums, i)))
    z = w.matmul("z", 8, 8, 8, t, w2)
    return w.program(w.matmul("last", 8, 8, 8, z, y))


def other_type(w: Writer) -> Program:
    x, w1, w2 = w.input("x", 8, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8, dtype=BF16)
    y = w.matmul("y", 8, 8, 8, x, w1)
    sums = w.reduction("sums", [8], [8], lambda i, r: load(y, i, r))
    t = w.pointwise(
        "t", [8, 8], lambda i, j: apply("div", load(y, i, j), load(sums, i)), dtype=BF16
    )
    return w.program(w.matmul("z", 8, 8, 8, t, w2))


def looped_rows(w: Writer) -> Program:
    """The row is read twice, in two loops: it must not be overwritten between them."""
    wide = 20000
    x, w1 = w.input("x", 8, 8), w.weight("w1", wide, 8)
    w2 = w.weight("w2", 8, wide)
    y = w.matmul("y", 8, wide, 8, x, w1)
    sums = w.reduction("sums", [8], [wide], lambda i, r: load(y, i, r))
    t = w.pointwise("t", [8, wide], lambda i, j: apply("div", load(y, i, j), load(sums, i)))
    return w.program(w.matmul("z", 8, 8, wide, t, w2))


def computed_late(w: Writer) -> Program:
    """``q`` reads ``y`` and stands before ``t``, but is computed after it, where it is used."""
    x, weights = w.input("x", 8, 8), [w.weight(f"w{k}", 8, 8) for k in range(4)]
    y = w.matmul("y", 8, 8, 8, x, weights[0])
    z = w.matmul("z", 8, 8, 8, w.matmul("middle", 8, 8, 8, y, weights[1]), weights[2])
    q = w.pointwise(
        "q", [8, 8], lambda i, j: apply("exp", apply("add", load(y, i, j), load(z, i, j)))
    )
    t = w.pointwise("t", [8, 8], lambda i, j: apply("mul", load(z, i, j), 2.0))
    a = w.pointwise("a", [8, 8], lambda i, j: apply("add", load(q, i, j), 1.0))
    b = w.pointwise("b", [8, 8], lambda i, j: apply("mul", load(q, i, j), 3.0))
    return w.program(a, b, w.matmul("last", 8, 8, 8, t, weights[3]))


def row_values(w: Writer) -> Program:
    """Each warp of a row reads its one value of ``y``, some perhaps after others wrote ``t``."""
    x, u, weight = w.input("x", 8, 64), w.input("u", 8, 8), w.weight("w", 8, 1)
    y = w.reduction("y", [8], [8], lambda i, r: load(u, i, r))
    s = w.reduction("s", [8], [64], lambda i, r: apply("mul", load(x, i, r), load(y, i)))
    t = w.pointwise("t", [8, 1], lambda i, j: apply("exp", apply("add", load(s, i), load(y, i))))
    return w.program(w.matmul("o", 8, 8, 1, t, weight))


@pytest.mark.row("S:O1", "S:K3", "S:K10", "S:inv38", "C:F11", "C:def2", "C:inv13")
@pytest.mark.parametrize(
    "make",
    [shifted, still_read, other_type, looped_rows, computed_late, row_values],
    ids=lambda f: f.__name__,
)
def test_refuses_to_overwrite(make: Callable[[Writer], Program]) -> None:
    schedule = schedule_of(make(Writer()))
    assert_lifetimes_hold(schedule)
    assert all(life.storage == life.buffer for life in schedule.lifetimes if life.buffer == "t")


@pytest.mark.row("S:O3")
def test_inputs_weights_and_outputs_have_no_lifetime() -> None:
    schedule = schedule_of(chain())
    program = schedule.program
    fixed = {*program.inputs, *program.weights, *program.outputs}
    assert fixed.isdisjoint(life.buffer for life in schedule.lifetimes)
