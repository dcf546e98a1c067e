"""Every reason why two operations did not share a kernel: one case each."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import why_text
from aotpack.ir.program import Program
from aotpack.schedule.fusion.fuse import MOST_REASONS, fuse
from aotpack.schedule.fusion.groups import MAX_MEMBERS
from aotpack.schedule.fusion.refusal import Refusal
from tests.schedule.fusion.test_fuse import cycle, linear_then_row_sum
from tests.schedule.programs import Writer, apply, load, schedule_of


def alone() -> Program:
    w = Writer()
    t = w.pointwise("t", [8], lambda i: apply("exp", load(w.input("x", 8), i)))
    y = w.pointwise("y", [8], lambda i: apply("exp", load(t, i)))
    w.buffers["y"] = replace(y, unfusable=True)
    return w.program(t, w.pointwise("z", [8], lambda i: apply("exp", load(y, i))))


def empty() -> Program:
    w = Writer()
    x = w.input("x", 0, 8)
    t = w.pointwise("t", [0, 8], lambda i, j: apply("exp", load(x, i, j)))
    return w.program(t, w.reduction("y", [8], [0], lambda j, r: load(t, r, j)))


def full() -> Program:
    w = Writer()
    x = w.input("x", 8)
    names = ["t", *(f"t{n}" for n in range(MAX_MEMBERS - 1)), "y"]
    many = [
        w.pointwise(n, [8], lambda i, k=k: apply("add", load(x, i), k)) for k, n in enumerate(names)
    ]
    return w.program(*many)


def memory() -> Program:
    """Two products of 64 rows each, of which ``t`` and ``y`` have the factor of a row in common."""
    w = Writer()
    x, c = w.input("x", 64, 64), w.input("c", 64)
    a = w.matmul("a", 64, 64, 64, x, x)
    b = w.matmul("b", 64, 64, 64, x, x, by_rows=False)
    t = w.reduction("t", [64], [64], lambda i, r: apply("mul", load(a, i, r), load(c, i)))
    y = w.reduction("y", [64], [64], lambda i, r: apply("mul", load(b, i, r), load(c, i)))
    return w.program(t, y)


def begins() -> Program:
    w = Writer()
    x = w.input("x", 8, 8)
    t = w.matmul("t", 8, 8, 8, x, x)
    return w.program(w.matmul("y", 8, 8, 8, t, x))


def scatter() -> Program:
    w = Writer()
    x, base = w.input("x", 4), w.input("base", 8)
    t = w.scatter("t", base, [4], lambda i: [i * 2], lambda i: load(x, i))
    return w.program(t, w.pointwise("y", [8], lambda i: apply("exp", load(t, i))))


def points() -> Program:
    w = Writer()
    t = w.reduction("t", [8], [4], lambda i, r: load(w.input("x", 8, 4), i, r))
    return w.program(t, w.pointwise("y", [3], lambda i: apply("exp", load(t, i))))


def order() -> Program:
    w = Writer()
    t = w.pointwise("t", [8, 4], lambda i, j: apply("exp", load(w.input("x", 8, 4), i, j)))
    return w.program(t, w.reduction("y", [8], [4], lambda i, r: load(t, 7 - i, r)))


def nothing() -> Program:
    w = Writer()
    x = w.input("x", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(x, i)))
    return w.program(t, w.pointwise("y", [8], lambda i: apply("exp", load(x, 7 - i))))


def elsewhere() -> Program:
    w = Writer()
    t = w.pointwise("t", [8], lambda i: apply("exp", load(w.input("x", 8), i)))
    return w.program(t, w.pointwise("y", [8], lambda i: apply("exp", load(t, 7 - i))))


def choice() -> Program:
    """``y`` reads more of the rows of ``z`` than of the rows of ``t``."""
    w = Writer()
    x, other = w.input("x", 8, 64), w.input("other", 8, 64)
    t = w.reduction("t", [8], [64], lambda i, r: load(x, i, r), kind="max")
    z = w.pointwise("z", [8, 64], lambda i, j: apply("exp", load(other, i, j)))
    s = w.reduction("s", [8], [64], lambda i, r: load(z, i, r))
    y = w.pointwise("y", [8, 64], lambda i, j: apply("add", load(z, i, j), load(t, i)))
    return w.program(z, s, y)


CASES = [
    (alone, ("y", "t"), Refusal.UNFUSABLE),
    (empty, ("y", "t"), Refusal.EMPTY),
    (full, ("y", "t"), Refusal.FULL),
    (cycle, ("y", "t"), Refusal.CYCLE),
    (memory, ("y", "t"), Refusal.MEMORY),
    (begins, ("y", "t"), Refusal.STARTS),
    (scatter, ("y", "t"), Refusal.CLOSED),
    (linear_then_row_sum, ("sum", "y"), Refusal.PARTIAL_ROW),
    (points, ("y", "t"), Refusal.POINTS),
    (order, ("y", "t"), Refusal.ORDER),
    (nothing, ("y", "t"), Refusal.NOTHING_SHARED),
    (elsewhere, ("y", "t"), Refusal.OTHER_PROGRAM),
    (choice, ("y", "t"), Refusal.BETTER),
]


@pytest.mark.row("S:K15", "S:inv25")
@pytest.mark.parametrize(
    ("make", "pair", "reason"),
    CASES,
    ids=lambda x: getattr(x, "name", None),
)
def test_each_refusal_has_one_reason(
    make: Callable[[], Program], pair: tuple[str, str], reason: Refusal
) -> None:
    found = [each for kernel in fuse(make()) for each in kernel.not_fused]
    pairs = [(each.buffer, each.other) for each in found]
    assert len(set(pairs)) == len(pairs)
    said = [each.reason for each in found if (each.buffer, each.other) == pair]
    assert said == [reason.value]


def test_the_table_has_every_reason() -> None:
    assert [reason for _, _, reason in CASES] == [*Refusal]


@pytest.mark.row("S:M15")
def test_what_is_shared_may_outweigh_what_could_be_left() -> None:
    """As ``memory``, with as many bytes in common as both read alone."""
    w = Writer()
    x, c = w.input("x", 64, 64), w.input("c", 64, 64)
    a = w.matmul("a", 64, 64, 64, x, x)
    b = w.matmul("b", 64, 64, 64, x, x, by_rows=False)
    t = w.reduction("t", [64], [64], lambda i, r: apply("mul", load(a, i, r), load(c, i, r)))
    y = w.reduction("y", [64], [64], lambda i, r: apply("mul", load(b, i, r), load(c, i, r)))
    assert [kernel.stored for kernel in fuse(w.program(t, y))] == [("a",), ("b",), ("t", "y")]
    assert [kernel.stored for kernel in fuse(memory())] == [("a",), ("b",), ("t",), ("y",)]


@pytest.mark.row("S:K15")
def test_what_shares_a_kernel_or_no_buffer_needs_no_reason() -> None:
    w = Writer()
    x, z = w.input("x", 8), w.input("z", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(x, i)))
    y = w.pointwise("y", [8], lambda i: apply("exp", load(t, i)))
    other = w.pointwise("other", [8], lambda i: apply("exp", load(z, i)))
    assert why_text(schedule_of(w.program(t, y, other))) == ""


@pytest.mark.row("S:K15")
def test_reasons_are_kept_for_the_nearest_kernels() -> None:
    """So that a tensor that everything reads does not make a list that grows with its square."""
    w = Writer()
    x = w.input("x", 8, 8)
    many = [w.matmul(f"y{n}", 8, 8, 8, x, x) for n in range(20)]
    kernels = fuse(w.program(*many))
    assert max(len(kernel.not_fused) for kernel in kernels) == MOST_REASONS
