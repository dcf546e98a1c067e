"""Element types by torch's names, with their spelling in numpy, safetensors and DLPack.

numpy has no bfloat16: such arrays come in as ml_dtypes.bfloat16 or as uint16 bits, and go out as
ml_dtypes.bfloat16 where that module is loaded, else as float32, which holds every bfloat16 exactly.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type; ``storage`` is the numpy type that holds its bytes."""

    name: str
    itemsize: int
    storage: str
    safetensors: str
    dlpack: tuple[int, int]  # (type code, bits)
    eps: float  # 0 for types that are compared exactly

    def __str__(self) -> str:
        return self.name


DTYPES = {
    dtype.name: dtype
    for dtype in (
        DType("bool", 1, "bool", "BOOL", (6, 8), 0.0),
        DType("uint8", 1, "uint8", "U8", (1, 8), 0.0),
        DType("int8", 1, "int8", "I8", (0, 8), 0.0),
        DType("int16", 2, "int16", "I16", (0, 16), 0.0),
        DType("int32", 4, "int32", "I32", (0, 32), 0.0),
        DType("int64", 8, "int64", "I64", (0, 64), 0.0),
        DType("float16", 2, "float16", "F16", (2, 16), 2.0**-10),
        DType("bfloat16", 2, "uint16", "BF16", (4, 16), 2.0**-7),
        DType("float32", 4, "float32", "F32", (2, 32), 2.0**-23),
        DType("float64", 8, "float64", "F64", (2, 64), 2.0**-52),
    )
}
BY_SAFETENSORS = {dtype.safetensors: dtype for dtype in DTYPES.values()}
BY_DLPACK = {dtype.dlpack: dtype for dtype in DTYPES.values()}


def numpy_name(dtype: "np.dtype[Any]") -> str:
    """The name of a numpy element type; another byte order shows in the name."""
    return dtype.name if dtype.isnative else f"{dtype.name} of foreign byte order"


def is_accepted(found: str, wanted: DType, framework: str) -> bool:
    """True when elements called ``found`` are stored as ``wanted`` is."""
    if found == wanted.name:
        return True
    return framework == "numpy" and wanted.name == "bfloat16" and found == "uint16"


def present(stored: Array, dtype: DType) -> Array:
    """The array a numpy user gets for stored bytes of ``dtype``."""
    if dtype.name != "bfloat16":
        return stored
    ml_dtypes = sys.modules.get("ml_dtypes")
    if ml_dtypes is not None:
        return stored.view(ml_dtypes.bfloat16)
    return widen(stored)


def widen(bits: Array) -> Array:
    """bfloat16 bits held as uint16 -> the same numbers as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
