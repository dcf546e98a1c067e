"""Merge the partial results of a split reduction, by kind.

A merge takes the whole reduction, its first half, whose axes begin with ``part`` and whose one
inner axis is ``step``, and the elements in no part. It declares the buffers in between and returns
the new operations.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points
from aotpack.ir.names import free_name
from aotpack.ir.operations import Pointwise, Reduction
from aotpack.ir.ops.extremes import NEIGHBOURS
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, Operation
from aotpack.ir.symbolic.facts import bounds, known_multiple
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Axis, Indirect, Int, maximum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.schedule.program.split.split_rest import Rest, args_at, less

Merge = Callable[[Reduction, Reduction, Rest, dict[str, Buffer]], list[Operation]]
NEEDS_EQUAL_PARTS = frozenset(("welford",))  # a mean has no padding element


def _same_kind(
    whole: Reduction, first: Reduction, rest: Rest, buffers: dict[str, Buffer]
) -> list[Operation]:
    """Partial results merge by the same kind."""
    (name,) = _declare(whole.targets, first, buffers)
    value: Value = _piece(name, first, buffers)
    if rest.lanes:
        value = rest.merged(whole.kind, value, rest.element)
    return [
        replace(first, targets=(name,)),
        replace(whole, inner=rest.inner, args=(value,)),
    ]


def _welford(
    whole: Reduction, first: Reduction, rest: Rest, buffers: dict[str, Buffer]
) -> list[Operation]:
    """Means average by length; their variance adds to the squares (Chan et al.).

    Means are averaged in float64: next to a large mean, a few units of float32 are a variance.
    """
    names = _declare(whole.targets, first, buffers)
    means, squares = (_piece(name, first, buffers) for name in names)
    dtype, wide, (target, spread_target) = means.dtype, DType.FLOAT64, whole.targets
    index, average = tuple(map(Int.of, whole.axes)), free_name(f"{target}_average", buffers)
    buffers[average] = Buffer(average, wide, tuple(axis.extent for axis in whole.axes))

    def apply(op: str, *args: Value) -> Value:
        return Apply(op, args, args[0].dtype)

    def from_mean(value: Value) -> Value:
        return apply("sub", value, Load(target, index, dtype))

    def total(name: str, value: Value) -> Reduction:
        return replace(whole, targets=(name,), inner=rest.inner, kind="sum", args=(fold(value),))

    number, everything = first.inner[0].extent, as_float(maximum(points(whole.inner), 1), wide)
    each = apply("div", Const(1.0, wide), everything)
    share = apply("mul", _cast(means, wide), apply("mul", as_float(number, wide), fold(each)))
    distance = from_mean(means)
    scaled = apply("mul", distance, as_float(number, dtype))  # 0 for an empty part, never NaN
    spread = apply("add", squares, apply("mul", scaled, distance))
    if rest.lanes:
        own_share = apply("mul", _cast(rest.element, wide), fold(each))
        share = rest.merged("sum", share, own_share)
        distance = from_mean(rest.element)
        spread = rest.merged("sum", spread, apply("mul", distance, distance))
    mean = _cast(Load(average, index, wide), dtype)
    return [
        replace(first, targets=names),
        total(average, share),
        Pointwise(target, whole.axes, mean, index, whole.origin),
        total(spread_target, spread),
    ]


def _softmax(
    whole: Reduction, first: Reduction, rest: Rest, buffers: dict[str, Buffer]
) -> list[Operation]:
    """The maximum of maxima; sums are scaled by exp(own maximum - maximum)."""
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


def _position(
    whole: Reduction, first: Reduction, rest: Rest, buffers: dict[str, Buffer]
) -> list[Operation]:
    """The position of the extreme of parts; of equals the first."""
    (target,) = whole.targets
    return _placed(whole, first, buffers, target, "first")


def _placed(
    whole: Reduction, first: Reduction, buffers: dict[str, Buffer], target: str, kind: str
) -> list[Operation]:
    """Parts give their extreme with its position; the second half selects a position."""
    part, step = first.axes[0], first.inner[0]
    (result,) = whole.targets
    (place,) = _declare((f"{result}_place",), first, buffers, DType.INT64)
    (extreme,) = _declare((f"{result}_extreme",), first, buffers)
    longest = bounds(part.extent * step.extent)[1]
    dtype = DType.INT32 if longest <= LARGEST_SIZE else DType.INT64
    before = IndexValue(Int.of(part) * step.extent, dtype)
    inside: Value = _piece(place, first, buffers)
    if dtype is DType.INT32:
        inside = Apply("cast", (inside,), dtype)
    found = Apply("add", (before, inside), dtype)
    own, placed = (whole.kind.replace("arg", f"{name}_") for name in (kind, "placed"))
    values = (_piece(extreme, first, buffers), found)
    return [
        replace(first, targets=(extreme, place), kind=own),
        replace(whole, targets=(target,), inner=(part,), kind=placed, args=values),
    ]


def has_neighbours(first: Reduction) -> bool:
    """True when parts consist of whole groups of neighbours, and there may be enough parts."""
    (step,), parts = first.inner, first.axes[0].extent
    return known_multiple(step.extent, NEIGHBOURS) and bounds(parts)[1] >= NEIGHBOURS


def near_position(
    whole: Reduction, first: Reduction, rest: Rest, buffers: dict[str, Buffer]
) -> list[Operation]:
    """As ``_position``, but parts give only the group of their extreme, which costs less.

    The neighbours of that group are compared once for each result, all at once.
    """
    (target,) = whole.targets
    place = free_name(f"{target}_from", buffers)
    buffers[place] = Buffer(place, DType.INT64, tuple(axis.extent for axis in whole.axes))
    index = tuple(map(Int.of, whole.axes))
    length = points(whole.inner)
    start: Value = Load(place, index, DType.INT64)
    elements = [
        _within_row(whole, Int.of(Indirect(start, length)) + number, length)
        for number in range(NEIGHBOURS)
    ]
    extremum = {"argmax": "maximum", "argmin": "minimum"}[whole.kind]
    extreme = reduce(lambda a, b: Apply(extremum, (a, b), a.dtype), elements)
    distance: Value = Const(NEIGHBOURS - 1, DType.INT64)
    for number, element in reversed(list(enumerate(elements[:-1]))):
        found = Apply("eq", (element, extreme), DType.BOOL)
        if element.dtype.is_float:
            is_nan = Apply("ne", (element, element), DType.BOOL)
            found = Apply("logical_or", (found, is_nan), DType.BOOL)
        distance = Apply("where", (found, Const(number, DType.INT64), distance), DType.INT64)
    total = Apply("add", (start, distance), DType.INT64)
    return [
        *_placed(whole, first, buffers, place, "near"),
        Pointwise(target, whole.axes, total, index, whole.origin),
    ]


def _within_row(whole: Reduction, position: Int, length: Int) -> Value:
    """The element at a flat position; past the end of the row, one that is never an extreme."""
    (element,) = args_at(whole, position)
    if known_multiple(length, NEIGHBOURS):
        return element
    nothing = Const(MONOIDS[whole.kind].identities(element.dtype)[0], element.dtype)
    return Guarded(less(position, length), element, nothing, element.dtype)


def _cast(value: Value, dtype: DType) -> Value:
    return fold(Apply("cast", (value,), dtype))


def as_float(number: Int, dtype: DType) -> Value:
    """A number of elements as a float."""
    return _cast(integer_value(number), dtype)


def _declare(
    targets: tuple[str, ...],
    first: Reduction,
    buffers: dict[str, Buffer],
    dtype: DType | None = None,
) -> tuple[str, ...]:
    """Buffers for the results of the first half."""
    names = tuple(free_name(f"{target}_part", buffers) for target in targets)
    shape = tuple(axis.extent for axis in first.axes)
    for name in names:
        buffers[name] = Buffer(name, dtype or first.args[0].dtype, shape)
    return names


def _piece(name: str, first: Reduction, buffers: dict[str, Buffer]) -> Load:
    """The element of the first half at a part and an index of the result."""
    axes: tuple[Axis, ...] = first.axes
    return Load(name, tuple(map(Int.of, axes)), buffers[name].dtype)


MERGES: Mapping[str, Merge] = {
    **dict.fromkeys("sum prod max min any all xor_sum logsumexp".split(), _same_kind),
    "welford": _welford,
    "softmax": _softmax,
    "argmax": _position,
    "argmin": _position,
}
