"""Rounded numbers as integers, by an addition instead of two conversions.

    cast(min(max(round(x), -127), 127), int8)    ->    low bits of min(max(x, -127), 127) + 1.5*2^23

From 2^23 to 2^24 the last place of a float32 is 1. So the addition rounds to the nearest integer,
of two to the even one, as ``round`` does. A conversion takes as long as eight additions. NaN
becomes 0, as by a conversion.
"""

from __future__ import annotations

import math

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.rounding import ROUNDINGS
from aotpack.ir.values import Apply, Const, Value
from aotpack.render.emit.emitter import Emitter
from aotpack.render.triton.types import TRITON_TYPES

_LARGEST = 2**22  # the sum stays where its last place is 1
_EXACT_TO = {DType.BFLOAT16: 2**8, DType.FLOAT16: 2**11}  # all integers up to these are numbers
_SHIFT = 1.5 * 2**23
_SHIFT_BITS = int(np.float32(_SHIFT).view(np.int32))
_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
_LIMITING = ("maximum", "minimum")


def nearest_integer(emitter: Emitter, value: Apply) -> str | None:
    """The text of a cast of rounded and limited float32 numbers; None for any other operation."""
    if value.op != "cast" or value.dtype not in _TYPES:
        return None
    limited = _limited(value.args[0])
    if limited is None:
        return None
    number, low, high = limited
    held = np.iinfo(value.dtype.facts.numpy or "")
    if low < held.min or held.max < high:
        return None
    name = emitter.value(number)
    if not name.isidentifier():  # a literal
        return None
    bits = f"({name} + {_SHIFT}).to(tl.int32, bitcast=True)"
    if value.dtype is DType.INT32:
        bits = f"{bits} - {_SHIFT_BITS}"
    return f"tl.where({name} == {name}, {bits}, 0).to({TRITON_TYPES[value.dtype]})"


def _limited(value: Value) -> tuple[Value, float, float] | None:
    """What is rounded, limited as ``value`` is, and its limits; roundings in between are exact."""
    limits: list[tuple[str, Const]] = []
    largest = _LARGEST
    while isinstance(value, Apply) and value.op in (*_LIMITING, *ROUNDINGS):
        if value.op in ROUNDINGS:
            largest = min(largest, _EXACT_TO[ROUNDINGS[value.op]])
            value = value.args[0]
            continue
        limit = next((arg for arg in value.args if _is_integer(arg)), None)
        if not isinstance(limit, Const):
            return None
        limits.append((value.op, limit))
        value = value.args[0 if limit is value.args[1] else 1]
    if not isinstance(value, Apply) or value.op != "round" or value.dtype is not DType.FLOAT32:
        return None
    (number,), low, high = value.args, -math.inf, math.inf
    for op, limit in reversed(limits):
        number = Apply(op, (number, limit), value.dtype)
        choose = max if op == "maximum" else min
        low, high = choose(low, float(limit.value)), choose(high, float(limit.value))
    return (number, low, high) if max(-low, high) <= largest else None


def _is_integer(value: Value) -> bool:
    return isinstance(value, Const) and float(value.value).is_integer()
