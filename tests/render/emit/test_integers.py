"""Integers as text: comparisons of indices need no type of data."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, IndexValue, Value
from aotpack.render.emit.integers import is_of_integers
from tests.render.emit.test_emitter import Bench, R, X


def index(value: Int | Axis) -> IndexValue:
    return IndexValue(Int.of(value), DType.INT64)


def compared(a: Value, b: Value, op: str = "lt") -> Apply:
    return Apply(op, (a, b), DType.BOOL)


def test_indices_are_compared_as_they_are() -> None:
    bench = Bench()
    condition = compared(index(Int.of(X) + R), Const(5, DType.INT64))
    name = bench.emitter.value(condition)
    assert list(bench.root.lines()) == [f"{name} = ((r + x) < 5)"]


@pytest.mark.parametrize(
    ("condition", "is_one"),
    [
        (compared(index(X), index(R), "ge"), True),
        (compared(Const(-3, DType.INT64), index(X), "eq"), True),
        (compared(index(X), Const(2**31, DType.INT64)), False),
        (compared(index(X), Const(0.5, DType.FLOAT64)), False),
        (compared(Const(1, DType.INT64), Const(2, DType.INT64)), False),
        (Apply("add", (index(X), index(R)), DType.INT64), False),
    ],
)
def test_only_comparisons_of_short_integers_are(condition: Apply, is_one: bool) -> None:
    assert is_of_integers(condition) is is_one
