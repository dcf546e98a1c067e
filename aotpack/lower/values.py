"""Constructors of values: constants, casts, operators. All fold constants."""

import math
import struct

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.float8 import FORMATS, decode, encode
from aotpack.ir.ops.fold import fold
from aotpack.ir.ops.optable import OPS
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import known_le, known_lt
from aotpack.ir.symbolic.integers import Int, Number
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value
from aotpack.lower.registry import CannotLower

# Numbers from here on round to infinity.
OVERFLOW = {DType.FLOAT16: 65520.0, DType.BFLOAT16: (2 - 2.0**-8) * 2.0**127}


def constant(number: Int | bool | float, dtype: DType) -> Value:
    """A number in the compute type of ``dtype``; integers wrap as the type does."""
    if isinstance(number, Int) and number.constant is None:
        return cast(IndexValue(number, DType.INT64), dtype)
    plain = int(number) if isinstance(number, Int) else number
    if dtype is DType.BOOL:
        return Const(bool(plain), dtype)
    if dtype.is_float:
        return Const(float(plain), dtype.compute)
    return Const(_wrap(int(plain), dtype), dtype)


def _wrap(number: int, dtype: DType) -> int:
    bits = dtype.facts.bits
    low = 0 if dtype.facts.kind == "uint" else -(1 << (bits - 1))
    return (number - low) % (1 << bits) + low


def rounded(number: float, dtype: DType) -> float:
    """A float rounded to ``dtype``, for 8- and 16-bit types; ``constant`` rounds the others."""
    if dtype.is_float8:
        form = FORMATS[dtype]
        return float(decode(encode(np.asarray(number, np.float32), form), form))
    if not math.isfinite(number) or dtype not in OVERFLOW:
        return number
    if abs(number) >= OVERFLOW[dtype]:
        return math.copysign(math.inf, number)
    if dtype is DType.FLOAT16:
        return float(struct.unpack("<e", struct.pack("<e", number))[0])
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def cast(value: Value, dtype: DType) -> Value:
    """The value in the compute type of ``dtype``; a cast to bool tests for nonzero.

    16-bit floats are rounded by the store or by ``round_to``, 8-bit ones here.
    """
    to = dtype.compute
    if dtype.is_float8:
        return decoded(encoded(value, dtype), dtype)
    if value.dtype is to:
        return value
    if to is DType.BOOL:
        return apply("ne", value, 0)
    return fold(Apply("cast", (value,), to))


def round_to(value: Value, dtype: DType) -> Value:
    """The value in the compute type of ``dtype``, rounded to a number of ``dtype``."""
    casted = cast(value, dtype)
    return apply(f"round_{dtype}", casted) if dtype in OVERFLOW else casted


def encoded(value: Value, dtype: DType) -> Value:
    """The value to store in a buffer of ``dtype``: the code of an 8-bit float."""
    return (
        apply(f"{dtype}_code", cast(value, DType.FLOAT32))
        if dtype.is_float8
        else cast(value, dtype)
    )


def decoded(stored: Value, dtype: DType) -> Value:
    """The value of an element read from a buffer of ``dtype``."""
    return apply(f"of_{dtype}_code", stored) if dtype.is_float8 else stored


def apply(op: str, *args: Value | Int | bool | float) -> Value:
    """Apply an operator of the op table; numbers get the type of the first value."""
    typed = args[1:] if op == "where" else args
    first = next(arg for arg in typed if not isinstance(arg, (Int, bool, int, float)))
    info = OPS[op]
    if not info.accepts(first.dtype):
        raise CannotLower(f"{first.dtype} operands are not accepted by {op}")
    values = tuple(
        constant(arg, first.dtype) if isinstance(arg, (Int, bool, int, float)) else arg
        for arg in args
    )
    return fold(Apply(op, values, info.result_type(first.dtype, first.dtype)))


def where(condition: Value, a: Value | float, b: Value | float) -> Value:
    """``a`` where the condition holds, else ``b``; one of them must be a value."""
    return apply("where", condition, a, b)


def guarded(conditions: list[Value], value: Value, otherwise: Value) -> Value:
    """``value``, loaded only if all conditions hold, else ``otherwise``."""
    if not conditions:
        return value
    condition = conditions[0]
    for other in conditions[1:]:
        condition = apply("logical_and", condition, other)
    return fold(Guarded(condition, value, otherwise, value.dtype))


def position(index: Number, dtype: DType = DType.INT64) -> Value:
    """An index as a value."""
    return constant(Int.of(index), dtype)


def index_from(value: Value, size: Int) -> Int:
    """A value as an index into a dimension: negative ones count from the end.

    Indices out of range (eager raises) are clamped, so that no read leaves the buffer.
    """
    wide = cast(value, DType.INT64)
    inside = _known_inside(wide, size)
    if inside is not None:
        return inside
    bounded = apply("maximum", apply("minimum", _from_end(wide, size), position(size - 1)), 0)
    return as_index(bounded, size)


def target_from(value: Value, size: Int, *, from_end: bool = False) -> Int:
    """A value as an index to write at; negative ones count from the end if ``from_end``.

    Indices out of range (eager raises) become ``size``, which a scatter skips.
    """
    wide = cast(value, DType.INT64)
    inside = _known_inside(wide, size)
    if inside is not None:
        return inside
    place = _from_end(wide, size) if from_end else wide
    outside = apply("logical_or", apply("lt", place, 0), apply("ge", place, position(size)))
    return as_index(where(outside, position(size), place), size + 1)


def _known_inside(value: Value, size: Int) -> Int | None:
    """The index, if it is within [0, size) for every admitted size."""
    if isinstance(value, IndexValue) and known_le(0, value.index) and known_lt(value.index, size):
        return value.index
    if isinstance(value, Const) and known_le(0, int(value.value)):
        return Int.of(int(value.value)) if known_lt(int(value.value), size) else None
    return None


def _from_end(value: Value, size: Int) -> Value:
    return where(apply("lt", value, 0), apply("add", value, position(size)), value)
