"""Kernel parameters in the spelling of Triton's compiler."""

from collections.abc import Mapping

from aotpack.ir.dtypes import DType

POINTERS: Mapping[DType, str] = {
    DType.BOOL: "*i1",
    DType.UINT8: "*u8",
    DType.INT8: "*i8",
    DType.INT16: "*i16",
    DType.INT32: "*i32",
    DType.INT64: "*i64",
    DType.FLOAT16: "*fp16",
    DType.BFLOAT16: "*bf16",
    DType.FLOAT8_E4M3FN: "*u8",
    DType.FLOAT8_E5M2: "*u8",
    DType.FLOAT8_E4M3FNUZ: "*u8",
    DType.FLOAT8_E5M2FNUZ: "*u8",
    DType.FLOAT32: "*fp32",
    DType.FLOAT64: "*fp64",
}
"""Pointers to elements of a type."""


def parameter_type(dtype: DType, *, is_pointer: bool) -> str:
    """The type of a parameter: a pointer, or a scalar."""
    return POINTERS[dtype] if is_pointer else POINTERS[dtype].removeprefix("*")
