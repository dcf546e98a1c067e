"""Element types by torch's names, with their spelling in numpy, safetensors and DLPack.

numpy has no bfloat16 and no 8-bit floats. Such arrays are accepted as those of ml_dtypes or as bits
(uint16, uint8), and returned as those of ml_dtypes if that module is loaded, else as float32, which
represents each of them exactly.
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

    @property
    def is_known_to_numpy(self) -> bool:
        """False if numpy can only hold the bits."""
        return self.storage == self.name

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
        DType("float8_e4m3fn", 1, "uint8", "F8_E4M3", (10, 8), 2.0**-3),
        DType("float8_e5m2", 1, "uint8", "F8_E5M2", (12, 8), 2.0**-2),
        DType("float8_e4m3fnuz", 1, "uint8", "F8_E4M3FNUZ", (11, 8), 2.0**-3),
        DType("float8_e5m2fnuz", 1, "uint8", "F8_E5M2FNUZ", (13, 8), 2.0**-2),
        DType("float32", 4, "float32", "F32", (2, 32), 2.0**-23),
        DType("float64", 8, "float64", "F64", (2, 64), 2.0**-52),
    )
}
COMPLEX = {
    real: DType(name, size, name, f"C{8 * size}", (5, 8 * size), eps)
    for real, name, size, eps in (
        ("float32", "complex64", 8, 2.0**-23),
        ("float64", "complex128", 16, 2.0**-52),
    )
}
"""The complex type whose parts are of a type; kernels know pairs of those alone."""
WIDENED = {
    "int16": ("int8", "uint8"),
    "int32": ("int16", "int8", "uint16", "uint8"),
    "int64": ("int32", "int16", "int8", "uint32", "uint16", "uint8"),
    "float32": ("float16", "bfloat16"),
    "float64": ("float32", "float16", "bfloat16"),
}
"""The types whose values an argument's type holds exactly: they are converted in a call."""
BY_SAFETENSORS = {dtype.safetensors: dtype for dtype in DTYPES.values()}
BY_DLPACK = {dtype.dlpack: dtype for dtype in DTYPES.values()}


def numpy_name(dtype: "np.dtype[Any]") -> str:
    """The name of a numpy element type; another byte order shows in the name."""
    return dtype.name if dtype.isnative else f"{dtype.name} of foreign byte order"


def is_accepted(found: str, wanted: DType, framework: str) -> bool:
    """True if elements of type ``found`` have the storage of ``wanted``."""
    if found == wanted.name:
        return True
    return framework == "numpy" and found == wanted.storage


def present(stored: Array, dtype: DType) -> Array:
    """The array returned to a numpy user for stored bytes of ``dtype``."""
    if dtype.is_known_to_numpy:
        return stored
    ml_dtypes = sys.modules.get("ml_dtypes")
    if ml_dtypes is not None:
        return stored.view(getattr(ml_dtypes, dtype.name))
    return widen(stored, dtype)


def widen(stored: Array, dtype: DType) -> Array:
    """Decode ``stored`` bits to float32; types that numpy has are returned unchanged.

    numpy makes scalars of arrays without dimensions; here they stay arrays.
    """
    if dtype.is_known_to_numpy:
        return stored
    if dtype.itemsize == 2:
        return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(float8_values(dtype.name)[stored])


def float8_values(name: str) -> Array:
    """The value of each code of an 8-bit float."""
    mantissa, bias = (3, 7) if "e4m3" in name else (2, 15)
    code = np.arange(256, dtype=np.uint32)
    size = ((code & 0x7F) << (23 - mantissa)).view(np.float32)
    if name.endswith("fnuz"):  # a bias larger by one; NaN where -0 would be
        numbers = size * np.float32(2.0 ** (126 - bias))
        numbers[0x80] = np.nan
    else:
        numbers = size * np.float32(2.0 ** (127 - bias))
        if mantissa == 2:
            numbers[(code & 0x7F) > 0x7C] = np.nan
            numbers[(code & 0x7F) == 0x7C] = np.inf
        else:
            numbers[(code & 0x7F) == 0x7F] = np.nan
    return np.where(code < 0x80, numbers, -numbers)
