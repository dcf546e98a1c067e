"""Maximum and sum of exponentials of a long row in one walk."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from aotpack.devices import H200
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.schedule.program.online_softmax import merge_softmax_sums
from tests.schedule.programs import Writer, apply, assert_same, load


def distances(x: Value, top: Value) -> Value:
    return apply("exp", apply("sub", x, top))


def pair(
    length: int,
    element: Callable[[Value, Value], Value] = distances,
    *,
    kind: str = "max",
    shift: int = 0,
) -> Program:
    """A reduction of each row, then the sum of ``element(x, reduced)``."""
    w = Writer()
    x = w.input("x", 3, length)
    top = w.reduction("top", [3], [length], lambda i, r: load(x, i, r), kind=kind)
    row = (lambda i: i) if not shift else (lambda i: Int.of(2) - i)
    total = w.reduction(
        "total", [3], [length], lambda i, r: element(load(x, i, r), load(top, row(i)))
    )
    return w.program(top, total)


def kinds(program: Program) -> list[str]:
    return [op.kind for op in program.operations if isinstance(op, Reduction)]


@pytest.mark.row("S:B16", "C:G21")
def test_joins_the_pair_of_a_long_row() -> None:
    merged = merge_softmax_sums(pair(H200.longest_row + 1), H200)
    assert kinds(merged) == ["softmax"]
    assert merged.operations[0].targets == ("top", "total")  # type: ignore[union-attr]


@pytest.mark.row("S:B16", "C:G21")
def test_the_meaning_stays() -> None:
    program = pair(9)
    merged = merge_softmax_sums(program, replace(H200, registers=32))
    assert kinds(merged) == ["softmax"]
    assert_same(program, merged)


@pytest.mark.row("S:B16")
@pytest.mark.parametrize(
    "program",
    [
        pair(H200.longest_row),
        pair(H200.longest_row + 1, kind="min"),
        pair(H200.longest_row + 1, shift=1),
        pair(H200.longest_row + 1, lambda x, top: apply("sub", x, top)),
        pair(H200.longest_row + 1, lambda x, top: distances(apply("neg", x), top)),
        pair(H200.longest_row + 1, lambda x, top: distances(top, x)),
    ],
    ids=["short", "minimum", "other_row", "no_exponential", "other_element", "reversed"],
)
def test_leaves_others_alone(program: Program) -> None:
    assert merge_softmax_sums(program, H200) is program
