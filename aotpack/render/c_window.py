"""Guards along an inner loop as bounds of it: what is read inside needs no condition.

for w: y[w] = x[w + k - 1] if 0 <= w + k - 1 < W else 0
->  low = max(first, 1 - k), high = min(end, W + 1 - k); zeros, a plain copy, zeros
"""

from collections.abc import Iterator
from dataclasses import dataclass

from aotpack.ir.access import slope
from aotpack.ir.integers import Axis, Int
from aotpack.ir.nodes import Apply, Const, Guarded, IndexValue, Value


@dataclass(frozen=True, slots=True)
class Limit:
    """``step * axis + start`` is at least ``bound`` (or below it, if ``is_upper``)."""

    step: int
    start: Int
    bound: Int
    is_upper: bool


@dataclass(frozen=True, slots=True)
class Window:
    """``value`` where all limits hold and so do ``conditions``, free of the axis; else 0."""

    value: Value
    limits: tuple[Limit, ...]
    conditions: tuple[Value, ...]


def window(value: Value, axis: Axis) -> Window | None:
    """A guarded value in this form; None for any other."""
    if not isinstance(value, Guarded) or not _is_zero(value.otherwise):
        return None
    limits: list[Limit] = []
    conditions: list[Value] = []
    for condition in _conjuncts(value.condition):
        index = _compared(condition)
        if index is None:
            return None
        step = slope(index, axis)
        if step == 0:
            conditions.append(condition)
        elif step is None or step < 0:
            return None
        else:
            limits.append(_limit(condition, index, step, axis))
    return Window(value.value, tuple(limits), tuple(conditions))


def _limit(condition: Value, index: Int, step: int, axis: Axis) -> Limit:
    assert isinstance(condition, Apply)
    bound = _index(condition.args[1])
    assert bound is not None
    return Limit(step, index - Int.of(axis) * step, bound, condition.op == "lt")


def _conjuncts(condition: Value) -> Iterator[Value]:
    if isinstance(condition, Apply) and condition.op == "logical_and":
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def _compared(condition: Value) -> Int | None:
    """The left side of ``index >= bound`` or ``index < bound``."""
    if not isinstance(condition, Apply) or condition.op not in ("ge", "lt"):
        return None
    left, right = map(_index, condition.args)
    return None if right is None else left


def _index(value: Value) -> Int | None:
    if isinstance(value, IndexValue):
        return value.index
    return Int.of(int(value.value)) if isinstance(value, Const) else None


def _is_zero(value: Value) -> bool:
    return isinstance(value, Const) and value.value == 0
