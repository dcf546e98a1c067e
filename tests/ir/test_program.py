"""Walking values, and what operations read and write."""

import pytest

from aotpack.ir.operations import Attention, Matmul, Reduction
from aotpack.ir.origin import Origin
from aotpack.ir.program import loads, reads, targets, values
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import children, walk
from tests.ir.programs import F32, I64, ROW, J, K, apply, buffer, load, number, over

X = load("x", ROW)
SHARED = apply("exp", X)
ROOT = apply("add", SHARED, apply("mul", SHARED, number(2.0)))


@pytest.mark.row("S:A5", "S:A6")
def test_walk_visits_each_value_once_children_first() -> None:
    order = walk((ROOT,))
    assert len(order) == len(set(order)) == 5
    assert order.index(X) < order.index(SHARED) < order.index(ROOT)


def test_walk_of_a_deep_expression_does_not_recurse() -> None:
    value = X
    for _ in range(5000):
        value = apply("neg", value)
    assert len(walk((value,))) == 5001


@pytest.mark.row("S:F6", "S:L13")
def test_values_inside_indices_are_children() -> None:
    ids = load("ids", J, dtype=I64)
    gathered = load("table", Indirect(ids, Int.of(9)))
    assert children(gathered) == (ids,)
    both = apply("add", gathered, load("table", J))
    assert reads(over("out", (J,), both)) == ("ids", "table")


@pytest.mark.row("S:A2", "S:F6")
def test_values_and_targets_of_operations() -> None:
    welford = Reduction(("mean", "m2"), (ROW,), (J,), "welford", (load("x", ROW, J),))
    assert targets(welford) == ("mean", "m2")
    matmul = Matmul("out", (), ROW, J, K, load("x", ROW, K), load("y", K, J), F32)
    assert values(matmul) == (matmul.lhs, matmul.rhs)
    assert [found.buffer for found in loads(matmul)] == ["x", "y"]
    q, kv = load("q", ROW), load("k", J)
    attention = Attention("o", ROW, ROW, ROW, J, K, K, q, kv, kv, 1.0, False, None, kv, F32)
    assert values(attention) == (q, kv, kv, kv)


@pytest.mark.row("S:A3")
def test_origins_add_up() -> None:
    both = Origin(("a",), ("add",), ("m.py:1: x",)) + Origin(("b",), ("add",), ("m.py:1: x",))
    assert both == Origin(("a", "b"), ("add", "add"), ("m.py:1: x",))


@pytest.mark.row("S:E1")
def test_buffer_prints_its_type_and_shape() -> None:
    assert str(buffer("x", F32, 2, Int.of(ROW) + 1)) == "x: float32[2, i + 1]"
