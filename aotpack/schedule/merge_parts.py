"""How the parts of a split reduction give its results, kind by kind.

A merge takes the whole reduction and its first half, whose axes begin with ``part`` and whose one
inner axis is ``step``; it declares the buffers in between and gives the operations instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from aotpack.ir.access import points
from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis, Indirect, Int
from aotpack.ir.monoids import MONOIDS, NEIGHBOURS
from aotpack.ir.nodes import (
    Apply,
    Buffer,
    Const,
    Guarded,
    IndexValue,
    Load,
    Operation,
    Pointwise,
    Reduction,
    Value,
    targets,
)
from aotpack.ir.rewrite import Rewriter
from aotpack.schedule.group import digits

Merge = Callable[[Reduction, Reduction, dict[str, Buffer]], list[Operation]]
NEEDS_EQUAL_PARTS = frozenset(("welford",))  # no element adds nothing to a mean


def same_kind(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """The kind of the kind is the kind."""
    (name,) = _declare(whole.targets, first, buffers)
    value = _piece(name, first, buffers)
    part = first.axes[0]
    return [
        replace(first, targets=(name,)),
        replace(whole, inner=(part,), args=(value,)),
    ]


def _welford(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """Parts are equally long: means average, and their spread adds to the squares (Chan et al.)."""
    part, step = first.axes[0], first.inner[0]
    names = _declare(whole.targets, first, buffers)
    means, inner_squares = (_piece(name, first, buffers) for name in names)
    mean, squares = whole.targets
    dtype, shape = means.dtype, tuple(axis.extent for axis in whole.axes)
    spread, within = f"{squares}_between", f"{squares}_within"
    for name in (spread, within):
        buffers[name] = Buffer(name, dtype, shape)
    index = tuple(map(Int.of, whole.axes))
    count = Const(float(int(step.extent)), dtype)
    between = Apply("mul", (Load(spread, index, dtype), count), dtype)
    total = Apply("add", (Load(within, index, dtype), between), dtype)
    return [
        replace(first, targets=names),
        replace(whole, targets=(mean, spread), inner=(part,), args=(means,)),
        replace(whole, targets=(within,), inner=(part,), kind="sum", args=(inner_squares,)),
        Pointwise(squares, whole.axes, total, index, whole.origin),
    ]


def _softmax(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """The maximum of maxima; sums shrink by how far their own maximum lies below it."""
    part = first.axes[0]
    names = _declare(whole.targets, first, buffers)
    tops, sums = (_piece(name, first, buffers) for name in names)
    top, total = whole.targets
    highest = Load(top, tuple(map(Int.of, whole.axes)), tops.dtype)
    is_top = Apply("eq", (tops, highest), DType.BOOL)
    distance = Apply("sub", (tops, highest), tops.dtype)
    shrunk = Apply("mul", (sums, Apply("exp", (distance,), tops.dtype)), tops.dtype)
    share = Apply("where", (is_top, sums, shrunk), tops.dtype)
    return [
        replace(first, targets=names),
        replace(whole, targets=(top,), inner=(part,), kind="max", args=(tops,)),
        replace(whole, targets=(total,), inner=(part,), kind="sum", args=(share,)),
    ]


def _position(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """The part with the extreme, the first of equals; in it, the position found there."""
    part, step = first.axes[0], first.inner[0]
    (target,) = whole.targets
    (place,) = _declare((f"{target}_place",), first, buffers, DType.INT64)
    (extreme,) = _declare((f"{target}_extreme",), first, buffers)
    winner = f"{target}_winner"
    buffers[winner] = Buffer(winner, DType.INT64, tuple(axis.extent for axis in whole.axes))
    index = tuple(map(Int.of, whole.axes))
    number: Value = Load(winner, index, DType.INT64)
    chosen = Int.of(Indirect(number, part.extent))
    before = Apply("mul", (number, Const(int(step.extent), DType.INT64)), DType.INT64)
    inside = Load(place, (chosen, *index), DType.INT64)
    found = Apply("add", (before, inside), DType.INT64)
    values = _piece(extreme, first, buffers)
    return [
        replace(first, targets=(extreme, place), kind=whole.kind.replace("arg", "first_")),
        replace(whole, targets=(winner,), inner=(part,), args=(values,)),
        Pointwise(target, whole.axes, found, index, whole.origin),
    ]


def has_neighbours(first: Reduction) -> bool:
    """True when parts are made of whole groups of neighbours, and there are enough of them."""
    (step,), parts = first.inner, first.axes[0].extent.constant
    return int(step.extent) % NEIGHBOURS == 0 and parts is not None and parts >= NEIGHBOURS


def near_position(
    whole: Reduction, first: Reduction, buffers: dict[str, Buffer]
) -> list[Operation]:
    """As ``_position``, but parts say only near what their extreme is, which costs them less.

    The neighbours there are compared once, by the second half, for its result.
    """
    (target,) = whole.targets
    place, near = f"{target}_from", f"{target}_near"
    shape = tuple(axis.extent for axis in whole.axes)
    buffers[place], buffers[near] = (Buffer(name, DType.INT64, shape) for name in (place, near))
    parts, winner, found = _position(replace(whole, targets=(place,)), first, buffers)
    index = tuple(map(Int.of, whole.axes))
    length = points(whole.inner)
    start: Value = Load(place, index, DType.INT64)
    number = Axis("near", first.axes[0].extent)
    position = Int.of(Indirect(start, length)) + Int.of(number)
    element = Rewriter(digits(whole.inner, position))(whole.args[0])
    inside = _both(less(Int.of(number), NEIGHBOURS), less(position, int(length)))
    nothing = Const(MONOIDS[whole.kind].identities(element.dtype)[0], element.dtype)
    value = Guarded(inside, element, nothing, element.dtype)
    distance: Value = Load(near, index, DType.INT64)
    total = Apply("add", (start, distance), DType.INT64)
    return [
        replace(first, targets=targets(parts), kind=whole.kind.replace("arg", "near_")),
        winner,
        found,
        replace(whole, targets=(near,), inner=(number,), args=(value,)),
        Pointwise(target, whole.axes, total, index, whole.origin),
    ]


def less(index: Int, limit: int) -> Value:
    """True where an index is below a limit."""
    return Apply("lt", (IndexValue(index, DType.INT64), Const(limit, DType.INT64)), DType.BOOL)


def _both(a: Value, b: Value) -> Value:
    return Apply("logical_and", (a, b), DType.BOOL)


def _declare(
    targets: tuple[str, ...],
    first: Reduction,
    buffers: dict[str, Buffer],
    dtype: DType | None = None,
) -> tuple[str, ...]:
    """Buffers for the results of the first half."""
    names = tuple(f"{target}_part" for target in targets)
    shape = tuple(axis.extent for axis in first.axes)
    for name in names:
        buffers[name] = Buffer(name, dtype or first.args[0].dtype, shape)
    return names


def _piece(name: str, first: Reduction, buffers: dict[str, Buffer]) -> Load:
    """What the first half made, at a part and an index of the result."""
    axes: tuple[Axis, ...] = first.axes
    return Load(name, tuple(map(Int.of, axes)), buffers[name].dtype)


MERGES: Mapping[str, Merge] = {
    **dict.fromkeys("sum prod max min any all xor_sum logsumexp".split(), same_kind),
    "welford": _welford,
    "softmax": _softmax,
    "argmax": _position,
    "argmin": _position,
}
