"""Sort keys in torch's order (NaN is the largest, -0.0 equals 0.0), and binary searches."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ops.opinfo import TWINS
from aotpack.ir.ops.reference import Array
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Const, Guarded, Value

_BITS_BEHIND = {DType.BFLOAT16: 16, DType.FLOAT16: 13}  # trailing zero bits as a float32


@dataclass(frozen=True, slots=True)
class Key:
    """An integer in [least, least + 2**bits) that orders as its value does."""

    value: Value
    least: int
    bits: int

    def integer(self, number: int) -> Const:
        """A constant of the key's type."""
        return Const(number, self.value.dtype)


def key_of(x: Value, stored: DType, *, descending: bool = False) -> Key:
    """The key of a value of type ``stored``; ``descending`` reverses the order.

    The key of a float is its bits; those of a negative one are inverted, except the sign. 16-bit
    floats drop the zeros behind their own bits.
    """
    if stored.is_float:
        key = _key_of_float(x, stored)
    else:
        dtype = DType.INT64 if stored is DType.INT64 else DType.INT32
        bits = 1 if stored is DType.BOOL else 8 * stored.itemsize
        least = -(2 ** (bits - 1)) if stored.is_integer and stored is not DType.UINT8 else 0
        key = Key(fold(Apply("cast", (x,), dtype)), least, bits)
    if not descending:
        return key
    both_ends = key.integer(2 * key.least + 2**key.bits - 1)
    return Key(fold(Apply("sub", (both_ends, key.value), both_ends.dtype)), key.least, key.bits)


def _key_of_float(x: Value, stored: DType) -> Key:
    dtype = TWINS[x.dtype]
    width, behind = 8 * dtype.itemsize, _BITS_BEHIND.get(stored, 0)
    sign, rest = Const(width - 1, dtype), Const(2 ** (width - 1) - 1, dtype)

    def integer(op: str, *args: Value) -> Value:
        return fold(Apply(op, args, dtype))

    zero = Const(0.0, x.dtype)
    bits = integer("bits", fold(Apply("where", (bool_op("eq", x, zero), zero, x), x.dtype)))
    turned = integer("bitwise_and", integer("shift_right", bits, sign), rest)
    number = integer("bitwise_xor", bits, turned)
    # No select: GCC 12 would compare on both paths, and not vectorise.
    is_nan = integer("neg", integer("cast", bool_op("isnan", x)))
    key = integer(
        "bitwise_xor", number, integer("bitwise_and", integer("bitwise_xor", number, rest), is_nan)
    )
    key = integer("shift_right", key, Const(behind, dtype)) if behind else key
    return Key(key, -(2 ** (width - behind - 1)), width - behind)


def search(low: Value, high: Value, longest: int, is_counted: Callable[[Value], Value]) -> Value:
    """The int64 place in [low, high] where a binary search ends; ``high - low <= longest``.

    If the counted places come first, it ends behind the last of them. ``is_counted`` may be
    evaluated at ``high``; the result is ignored.
    """
    for _ in range(longest.bit_length()):
        middle = int64_op("shift_right", int64_op("add", low, high), integer_value(1))
        is_open = bool_op("lt", low, high)
        counted = is_counted(middle)
        after, before = bool_op("logical_and", is_open, counted), bool_op("logical_not", counted)
        before = bool_op("logical_and", is_open, before)
        low, high = (
            int64_op("where", after, int64_op("add", middle, integer_value(1)), low),
            int64_op("where", before, middle, high),
        )
    return low


def count_first(end: Value, longest: int, is_counted: Callable[[Value], Value]) -> Value:
    """The number of counted places in [0, end), where all counted ones come first.

    It has the type of ``end``, which is at most ``longest``, and is found bit by bit.
    ``is_counted`` may be evaluated from ``end`` up to twice ``longest``; the result is ignored.
    """
    dtype = end.dtype
    one = Const(1, dtype)
    count: Value = Const(0, dtype)
    for bit in reversed(range(longest.bit_length())):
        more = fold(Apply("add", (count, Const(2**bit, dtype)), dtype))
        is_counted_too = is_counted(fold(Apply("sub", (more, one), dtype)))
        goes_on = bool_op("logical_and", bool_op("le", more, end), is_counted_too)
        count = fold(Apply("where", (goes_on, more, count), dtype))
    return count


def integer_type(size: Int) -> DType:
    """The type of places in a row of this size, and of places up to three times as far."""
    return DType.INT32 if bounds(size)[1] < 2**29 else DType.INT64


def clamped_index(place: Value, size: Int) -> Int:
    """A non-negative number as an index of ``size`` elements, clamped to the last."""
    last = integer_value(size - 1, place.dtype)
    return as_index(fold(Apply("minimum", (place, last), place.dtype)), size)


def unless_empty(size: Int, value: Value) -> Value:
    """``value``, and its loads, where ``size`` is not 0; else 0, and nothing is loaded.

    A search in an empty row asks for the element that is nearest to a place, and there is none; it
    ends at place 0.
    """
    if bounds(size)[0] > 0:
        return value
    is_any = bool_op("lt", integer_value(0), integer_value(size))
    return fold(Guarded(is_any, value, _zero(value.dtype), value.dtype))


def _zero(dtype: DType) -> Const:
    if dtype is DType.BOOL:
        return Const(False, dtype)
    return Const(0.0 if dtype.is_float else 0, dtype)


def int64_op(op: str, *args: Value) -> Value:
    """An operator with an int64 result."""
    return fold(Apply(op, args, DType.INT64))


def bool_op(op: str, *args: Value) -> Value:
    """An operator with a bool result."""
    return fold(Apply(op, args, DType.BOOL))


def positions_in_order(elements: Array, along: int, *, descending: bool) -> Array:
    """The positions that sort the elements, as a stable argsort."""
    last = np.moveaxis(elements, along, -1)
    _, ranks = np.unique(last, return_inverse=True)  # NaN is the largest and equals itself
    keys = ranks.reshape(last.shape)
    order = np.argsort(-keys if descending else keys, axis=-1, kind="stable")
    return np.moveaxis(order, -1, along).astype(np.int64)
