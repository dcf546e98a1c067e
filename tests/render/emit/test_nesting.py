"""Values nested deeper than Python's stack have the lines that shallow ones have."""

import re
from collections.abc import Callable
from typing import TypeAlias

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import Apply, Const, Guarded, Load, Value
from aotpack.render.emit.nesting import DEEPEST, Nesting
from tests.render.emit.test_emitter import Bench, X
from tests.schedule.programs import BOOL, F32, apply

Nested: TypeAlias = Callable[[Value, int], Value]


def chain(value: Value, levels: int) -> Value:
    for _ in range(levels):
        value = apply("exp", value)
    return value


def guards(value: Value, levels: int) -> Value:
    """Values where a condition holds, where it does not, and conditions, in turn."""
    first, zero = value, Const(0.0, F32)
    for level in range(levels):
        below = Apply("lt", (first, Const(float(level), F32)), BOOL)
        match level % 3:
            case 0:
                value = Guarded(below, value, zero, F32)
            case 1:
                value = Guarded(below, zero, value, F32)
            case 2:
                value = Guarded(Apply("lt", (value, first), BOOL), first, zero, F32)
    return value


def positions(value: Value, levels: int) -> Value:
    """Elements at loaded positions."""
    for _ in range(levels):
        place = Apply("cast", (value,), DType.INT64)
        value = Load("x", (Int.of(Indirect(place, Int.of(8))), Int.of(0)), F32)
    return value


def lines(nested: Nested, levels: int) -> list[str]:
    bench = Bench()
    return bench.lines(nested(bench.load("x", X, 3), levels))


def test_depth_changes_no_line() -> None:
    few = lines(chain, 12)
    assert lines(chain, 3000)[: len(few)] == few


@pytest.mark.parametrize(("nested", "levels"), [(chain, 3000), (guards, 1500), (positions, 150)])
def test_each_part_has_one_line_before_its_uses(nested: Nested, levels: int) -> None:
    made: dict[str, None] = {}
    for line in lines(nested, levels):
        name, text = line.split(" = ", 1)
        assert name not in made
        assert made.keys() >= {*re.findall(r"\b[ti]\d+\b", text)}
        made[name] = None
    assert len(made) > levels


def test_only_deep_values_are_deep() -> None:
    nesting = Nesting(lambda load: None)
    x = Load("x", (Int.of(0),), F32)
    assert not nesting.is_deep(chain(x, DEEPEST // 4 - 3))
    assert nesting.is_deep(chain(x, DEEPEST // 4))


def test_parts_follow_results_to_their_values() -> None:
    x, y = (Load(name, (), F32) for name in "xy")
    made = chain(x, DEEPEST)
    nesting = Nesting(lambda load: made if load is y else "named")
    assert nesting.parts(y) == (made,)
    assert nesting.parts(x) == ()
    assert nesting.is_deep(y)
    assert next(nesting.innermost_first(y, ())) is x
    assert [*nesting.innermost_first(y, {made})] == [y]
