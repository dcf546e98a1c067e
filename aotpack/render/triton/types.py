"""Element types and numbers as Triton text."""

import math
from collections.abc import Mapping

from aotpack.ir.dtypes import DType

TRITON_TYPES: Mapping[DType, str] = {
    DType.BOOL: "tl.int1",
    DType.UINT8: "tl.uint8",
    DType.INT8: "tl.int8",
    DType.INT16: "tl.int16",
    DType.INT32: "tl.int32",
    DType.INT64: "tl.int64",
    DType.FLOAT16: "tl.float16",
    DType.BFLOAT16: "tl.bfloat16",
    DType.FLOAT8_E4M3FN: "tl.uint8",
    DType.FLOAT8_E5M2: "tl.uint8",
    DType.FLOAT8_E4M3FNUZ: "tl.uint8",
    DType.FLOAT8_E5M2FNUZ: "tl.uint8",
    DType.FLOAT32: "tl.float32",
    DType.FLOAT64: "tl.float64",
}
"""The types of values in registers; 8-bit floats are their codes."""


def triton_literal(value: bool | int | float) -> str:
    """A number without a type; infinities and NaN by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
