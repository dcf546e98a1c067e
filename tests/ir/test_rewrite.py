"""Substitution into values: sharing, folding, loads, and what does not change stays the object."""

from dataclasses import replace

import pytest

from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.rewrite import Rewriter, as_index, map_values
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import Const, Load, Value
from tests.ir.programs import F32, I64, ROW, J, K, apply, index, load, over

VALUE = apply("mul", apply("exp", load("x", ROW, J)), load("y", Int.of(J) * 2))


@pytest.mark.row("S:A10", "S:P12")
def test_axes_are_substituted_in_loads_and_index_values() -> None:
    moved = Rewriter({J: Int.of(K) + 1})(VALUE)
    k = Int.of(K)
    assert moved is apply("mul", apply("exp", load("x", ROW, k + 1)), load("y", k * 2 + 2))
    assert Rewriter({J: 3})(index(Int.of(J) + 1)) is Const(4, I64)


@pytest.mark.row("S:T17")
def test_nothing_to_replace_gives_the_same_object() -> None:
    assert Rewriter({})(VALUE) is VALUE
    assert Rewriter({K: 0})(VALUE) is VALUE


def test_loads_are_replaced_after_their_index() -> None:
    def producer(found: Load) -> Value | None:
        return apply("neg", load("z", *found.index)) if found.buffer == "x" else None

    moved = Rewriter({ROW: 7}, producer)(VALUE)
    assert moved is apply("mul", apply("exp", apply("neg", load("z", 7, J))), VALUE.args[1])


def test_replaced_values_are_folded() -> None:
    value = apply("add", load("x", ROW), Const(-0.0, F32))
    assert Rewriter({}, lambda found: load("z", *found.index))(value) is load("z", ROW)


def test_values_inside_indices_are_rewritten() -> None:
    ids = load("ids", J, dtype=I64)
    value = load("table", Indirect(ids, Int.of(100)), ROW)
    moved = Rewriter({J: K})(value)
    assert moved is load("table", Indirect(load("ids", K, dtype=I64), Int.of(100)), ROW)
    known = Rewriter({}, lambda found: index(J) if found.buffer == "ids" else None)(value)
    assert known is load("table", J, ROW)


def test_constant_as_index() -> None:
    assert as_index(Const(3, I64), Int.of(9)) is Int.of(3)
    loaded = load("ids", J, dtype=I64)
    assert as_index(loaded, Int.of(9)).leaves() == (Indirect(loaded, Int.of(9)),)


def test_map_values_reaches_every_slot_and_keeps_the_unchanged() -> None:
    matmul = Matmul("out", (), ROW, J, K, load("x", ROW, K), load("y", K, J), F32)
    moved = map_values(matmul, Rewriter({}, lambda found: load("z", *found.index)))
    assert moved == replace(matmul, lhs=load("z", ROW, K), rhs=load("z", K, J))
    reduction = Reduction(("out",), (ROW,), (J,), "sum", (load("x", ROW, J),))
    for operation in (matmul, reduction, over("out", (ROW, J), VALUE)):
        assert map_values(operation, Rewriter({})) is operation
