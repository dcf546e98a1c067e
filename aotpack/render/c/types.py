"""Element types, casts and numbers as C text."""

import math
from collections.abc import Mapping

import numpy as np

from aotpack.ir.dtypes import DType

C_TYPES: Mapping[DType, str] = {
    DType.BOOL: "bool",
    DType.UINT8: "uint8_t",
    DType.INT8: "int8_t",
    DType.INT16: "int16_t",
    DType.INT32: "int32_t",
    DType.INT64: "int64_t",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
}
"""The types of values."""

C_STORED: Mapping[DType, str] = {
    **C_TYPES,
    DType.BOOL: "uint8_t",
    DType.FLOAT16: "uint16_t",
    DType.BFLOAT16: "uint16_t",
}
"""The types of elements in memory; 16-bit floats are their bits."""


_SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)


def c_cast(text: str, source: DType | None, target: DType) -> str:
    """A value in another type; ``source`` None is an index. Floats truncate, integers wrap."""
    if target in (DType.FLOAT16, DType.BFLOAT16):
        return f"aot_round_{target}({text})"
    if source in (DType.FLOAT16, DType.BFLOAT16):
        return f"aot_float_of_{source}({text})"
    if target is DType.BOOL:
        return f"{text} != 0"
    if source is not None and source.is_float and target.is_integer:
        width = 32 if target.facts.bits < 32 else target.facts.bits
        text = f"aot_int{width}_of_{source}({text})"
    if target.is_float and source in _SIGNED:
        return f"aot_{target}_of_int{64 if source is DType.INT64 else 32}({text})"
    return f"({C_TYPES[target]}){text}"


def c_literal(value: bool | int | float, dtype: DType) -> str:
    """A number as C text of the type ``dtype``."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), dtype)
    if dtype is not DType.INT64:
        return _signed(f"{int(value)}", value)
    if int(value) == -(2**63):
        return "INT64_MIN"
    sign = "-" if value < 0 else ""
    return _signed(f"{sign}INT64_C({abs(int(value))})", value)


def _float(value: float, dtype: DType) -> str:
    if math.isnan(value):
        return "NAN"
    suffix = "f" if dtype is DType.FLOAT32 else ""
    with np.errstate(over="ignore"):
        rounded = np.float32(value) if suffix else np.float64(value)
    if math.isinf(float(rounded)):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = str(rounded)
    text = text if any(mark in text for mark in ".e") else f"{text}.0"
    return _signed(f"{text}{suffix}", math.copysign(1, value))


def _signed(text: str, value: float) -> str:
    return f"({text})" if value < 0 else text
