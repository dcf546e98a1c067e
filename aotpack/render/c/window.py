"""Guards along an inner loop as bounds of it: reads inside need no condition.

for w: y[w] = x[w + k - 1] if 0 <= w + k - 1 < W else 0
->  low = max(first, 1 - k), high = min(end, W + 1 - k); zeros, a plain copy, zeros
"""

from collections.abc import Iterator
from dataclasses import dataclass

from aotpack.ir.kernels.access import slope
from aotpack.ir.ops.fold import integer_of
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, Load, Value
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.nesting import Nesting, Resolve


@dataclass(frozen=True, slots=True)
class Limit:
    """``step * axis + start`` is at least ``bound`` (or below it, if ``is_upper``)."""

    step: int
    start: Int
    bound: Int
    is_upper: bool


@dataclass(frozen=True, slots=True)
class Window:
    """``value`` where all limits hold and so do ``conditions``, which do not vary along the axis.

    Reads that do not vary along the axis are hoisted before the loop, whose bounds do not guard
    them: unless ``moves`` says that there are none, the loop needs an ``if`` around it.
    """

    value: Value
    limits: tuple[Limit, ...]
    conditions: tuple[Value, ...]
    moves: bool


def window(
    value: Value,
    axis: Axis,
    otherwise: bool | int | float = 0,
    resolve: Resolve = lambda load: None,
) -> Window | None:
    """The window of a guarded value; None for any other value."""
    if not isinstance(value, Guarded) or not _is(value.otherwise, otherwise):
        return None
    limits: list[Limit] = []
    conditions: list[Value] = []
    for condition in _conjuncts(value.condition):
        index = _compared(condition, axis)
        if index is None:
            return None
        step = slope(index, axis)
        if step == 0:
            conditions.append(condition)
        elif step is None or step < 0:
            return None
        else:
            limits.append(_limit(condition, index, step, axis))
    moves = _moves(value.value, axis, resolve)
    return Window(value.value, tuple(limits), tuple(conditions), moves)


def slides(found: Window, axis: Axis) -> bool:
    """True for limits and conditions that are linear along another axis.

    Where they hold at two points of it, they hold at all points between.
    """
    starts = [limit.start for limit in found.limits]
    sides = [arg for one in found.conditions if isinstance(one, Apply) for arg in one.args]
    indices = [*starts, *map(integer_of, sides)]
    return all(index is not None and slope(index, axis) is not None for index in indices)


def _moves(value: Value, axis: Axis, resolve: Resolve) -> bool:
    """True when all loads of a value, through resolved ones too, vary along the axis."""
    nesting = Nesting(resolve)
    return all(
        any(axis in part.leaves() for part in load.index)
        for load in nesting.innermost_first(value, ())
        if isinstance(load, Load) and resolve(load) is None
    )


def limit_texts(emitter: Emitter, found: Window, first: str, end: str) -> tuple[str, str]:
    """The bounds of the window inside [first, end)."""
    low, high = first, end
    for limit in found.limits:
        reach = emitter.index(limit.bound - limit.start)
        edge = reach if limit.step == 1 else f"aot_ceil_div({reach}, {limit.step})"
        low = low if limit.is_upper else f"aot_max({low}, {edge})"
        high = f"aot_min({high}, {edge})" if limit.is_upper else high
    conditions = [emitter.value(condition) for condition in found.conditions]
    return low, f"{' & '.join(conditions)} ? {high} : {first}" if conditions else high


def _limit(condition: Value, index: Int, step: int, axis: Axis) -> Limit:
    assert isinstance(condition, Apply)
    bound = integer_of(condition.args[1])
    assert bound is not None
    return Limit(step, index - Int.of(axis) * step, bound, condition.op == "lt")


def _conjuncts(condition: Value) -> Iterator[Value]:
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, Apply) and part.op == "logical_and":
            pending += reversed(part.args)
        else:
            yield part


def _compared(condition: Value, axis: Axis) -> Int | None:
    """The left side of ``index >= bound`` or ``index < bound`` for a bound without the axis."""
    if not isinstance(condition, Apply) or condition.op not in ("ge", "lt"):
        return None
    left, right = map(integer_of, condition.args)
    return None if right is None or slope(right, axis) != 0 else left


def _is(value: Value, number: bool | int | float) -> bool:
    return isinstance(value, Const) and value.value == number
