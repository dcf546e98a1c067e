"""Torch's order of values: NaN is the largest, -0.0 equals 0.0; and searches in sorted rows."""

from collections.abc import Callable

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.fold import fold
from aotpack.ir.integers import Int, Number
from aotpack.ir.nodes import Apply, Const, IndexValue, Value
from aotpack.ir.reference import Array
from aotpack.ir.rewrite import as_index


def comes_first(a: Value, b: Value, *, descending: bool = False) -> Value:
    """A bool value: whether ``a`` stands before ``b``; false both ways where they are equal."""
    if descending:
        a, b = b, a
    less = _bool("lt", a, b)
    if not a.dtype.is_float:
        return less
    only_b = _bool("logical_and", _bool("isnan", b), _bool("eq", a, a))
    return _bool("logical_or", less, only_b)


def count_first(
    element: Callable[[Value], Value],
    length: Value,
    longest: int,
    is_counted: Callable[[Value], Value],
) -> Value:
    """An int64 value: how many of ``length`` elements are counted; those come before the others.

    A binary search with a load for each bit of ``longest``, the largest possible length. What
    ``element`` gives for places from ``length`` on, all below twice ``longest``, is not used.
    """
    found: Value = Const(0, DType.INT64)
    for bit in reversed(range(longest.bit_length())):
        more = _int64("add", found, whole(1 << bit))
        better = is_counted(element(_int64("sub", more, whole(1))))
        better = _bool("logical_and", _bool("le", more, length), better)
        found = _int64("where", better, more, found)
    return found


def bounded(place: Value, offset: Int, size: Int) -> Int:
    """``offset + place`` for a place that is not negative; the last of ``size`` when beyond."""
    return as_index(_int64("minimum", _int64("add", place, whole(offset)), whole(size - 1)), size)


def whole(number: Number) -> Value:
    """An integer as an int64 value."""
    index = Int.of(number)
    if index.constant is not None:
        return Const(index.constant, DType.INT64)
    return IndexValue(index, DType.INT64)


def _int64(op: str, *args: Value) -> Value:
    return fold(Apply(op, args, DType.INT64))


def _bool(op: str, *args: Value) -> Value:
    return fold(Apply(op, args, DType.BOOL))


def positions_in_order(elements: Array, along: int, *, descending: bool) -> Array:
    """What each place of the sorted elements held before, equal ones in their order."""
    last = np.moveaxis(elements, along, -1)
    _, ranks = np.unique(last, return_inverse=True)  # NaN is the largest and equals itself
    keys = ranks.reshape(last.shape)
    order = np.argsort(-keys if descending else keys, axis=-1, kind="stable")
    return np.moveaxis(order, -1, along).astype(np.int64)
