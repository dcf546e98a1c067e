"""Merge the partial results of a split reduction, by kind.

A merge takes the whole reduction and its first half, whose axes begin with ``part`` and whose one
inner axis is ``step``; it declares the buffers in between and returns the new operations.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import delinearize, points
from aotpack.ir.names import free_name
from aotpack.ir.operations import Pointwise, Reduction
from aotpack.ir.ops.extremes import NEIGHBOURS
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, Operation
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Axis, Indirect, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value

Merge = Callable[[Reduction, Reduction, dict[str, Buffer]], list[Operation]]
NEEDS_EQUAL_PARTS = frozenset(("welford",))  # a mean has no padding element


def same_kind(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """Partial results merge by the same kind."""
    (name,) = _declare(whole.targets, first, buffers)
    value = _piece(name, first, buffers)
    part = first.axes[0]
    return [
        replace(first, targets=(name,)),
        replace(whole, inner=(part,), args=(value,)),
    ]


def _welford(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
    """Parts are equally long: means average; their variance adds to the squares (Chan et al.)."""
    part, step = first.axes[0], first.inner[0]
    names = _declare(whole.targets, first, buffers)
    means, inner_squares = (_piece(name, first, buffers) for name in names)
    mean, squares = whole.targets
    dtype, shape = means.dtype, tuple(axis.extent for axis in whole.axes)
    spread, within = (free_name(f"{squares}_{role}", buffers) for role in ("between", "within"))
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


def _position(whole: Reduction, first: Reduction, buffers: dict[str, Buffer]) -> list[Operation]:
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
    longest = bounds(points(whole.inner) + step.extent)[1]
    dtype = DType.INT32 if longest <= LARGEST_SIZE else DType.INT64
    before = IndexValue(Int.of(part) * int(step.extent), dtype)
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
    """True when parts consist of whole groups of neighbours, and there are enough parts."""
    (step,), parts = first.inner, first.axes[0].extent.constant
    return int(step.extent) % NEIGHBOURS == 0 and parts is not None and parts >= NEIGHBOURS


def near_position(
    whole: Reduction, first: Reduction, buffers: dict[str, Buffer]
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
        _within_row(whole, Int.of(Indirect(start, length)) + number, int(length))
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


def _within_row(whole: Reduction, position: Int, length: int) -> Value:
    """The element at a flat position; past the end of the row, one that is never an extreme."""
    element = Rewriter(delinearize(whole.inner, position))(whole.args[0])
    if length % NEIGHBOURS == 0:
        return element
    nothing = Const(MONOIDS[whole.kind].identities(element.dtype)[0], element.dtype)
    return Guarded(less(position, length), element, nothing, element.dtype)


def less(index: Int, limit: int) -> Value:
    """True where an index is below a limit."""
    return Apply("lt", (IndexValue(index, DType.INT64), Const(limit, DType.INT64)), DType.BOOL)


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
    **dict.fromkeys("sum prod max min any all xor_sum logsumexp".split(), same_kind),
    "welford": _welford,
    "softmax": _softmax,
    "argmax": _position,
    "argmin": _position,
}
