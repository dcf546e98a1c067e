"""Element types: sizes, promotion facts and their names in torch, numpy and safetensors."""

from dataclasses import dataclass
from enum import Enum

from aotpack.errors import UsageError, did_you_mean


@dataclass(frozen=True, slots=True)
class _Facts:
    bits: int
    kind: str  # "float", "int", "uint", "bool"
    numpy: str | None  # None: numpy lacks the type; arrays hold the bytes as integers
    safetensors: str
    dlpack: tuple[int, int]  # (type code, bits)


class DType(Enum):
    """An element type. ``DType("float32")`` parses, ``str()`` prints; both use torch's name."""

    BOOL = "bool"
    UINT8 = "uint8"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    def __str__(self) -> str:
        return self.value

    @property
    def facts(self) -> _Facts:
        return _FACTS[self]

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return self.facts.bits // 8

    @property
    def is_float(self) -> bool:
        return self.facts.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.facts.kind in ("int", "uint")

    @property
    def is_float8(self) -> bool:
        return self.is_float and self.facts.bits == 8

    @property
    def stored(self) -> "DType":
        """The type of buffers with these elements; 8-bit floats are stored as uint8."""
        return DType.UINT8 if self.is_float8 else self

    @property
    def compute(self) -> "DType":
        """The type of arithmetic; floats shorter than 32 bits widen to float32."""
        return DType.FLOAT32 if self.is_float and self.facts.bits < 32 else self

    @property
    def accumulator(self) -> "DType":
        """The type of sums: float32 for shorter floats, int64 for integers and bool."""
        return self.compute if self.is_float else DType.INT64


_FACTS = {
    DType.BOOL: _Facts(8, "bool", "bool", "BOOL", (6, 8)),
    DType.UINT8: _Facts(8, "uint", "uint8", "U8", (1, 8)),
    DType.INT8: _Facts(8, "int", "int8", "I8", (0, 8)),
    DType.INT16: _Facts(16, "int", "int16", "I16", (0, 16)),
    DType.INT32: _Facts(32, "int", "int32", "I32", (0, 32)),
    DType.INT64: _Facts(64, "int", "int64", "I64", (0, 64)),
    DType.FLOAT16: _Facts(16, "float", "float16", "F16", (2, 16)),
    DType.BFLOAT16: _Facts(16, "float", None, "BF16", (4, 16)),
    DType.FLOAT8_E4M3FN: _Facts(8, "float", None, "F8_E4M3", (10, 8)),
    DType.FLOAT8_E5M2: _Facts(8, "float", None, "F8_E5M2", (12, 8)),
    DType.FLOAT8_E4M3FNUZ: _Facts(8, "float", None, "F8_E4M3FNUZ", (11, 8)),
    DType.FLOAT8_E5M2FNUZ: _Facts(8, "float", None, "F8_E5M2FNUZ", (13, 8)),
    DType.FLOAT32: _Facts(32, "float", "float32", "F32", (2, 32)),
    DType.FLOAT64: _Facts(64, "float", "float64", "F64", (2, 64)),
}

_ABBREVIATIONS = {  # common elsewhere
    "bf16": "bfloat16",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "single": "float32",
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
}
CAST_TYPES = tuple(dtype for dtype in DType if dtype.is_float and not dtype.is_float8)


def read_cast(given: object) -> DType | None:
    """Parse the type that a model is cast to: a name, a torch dtype, or None for no cast."""
    if given is None:
        return None
    accepted = {str(dtype): dtype for dtype in CAST_TYPES}
    name = str(given).removeprefix("torch.")
    if name not in accepted:
        codes = "; codes of 8 bits are made by --quantize int8 or fp8, quantize='int8' or 'fp8'"
        is_short = name.lower().startswith(("int8", "fp8", "f8", "float8", "int4", "uint8"))
        near = did_you_mean(_ABBREVIATIONS.get(name.lower(), name), accepted)
        near = codes if is_short else near
        raise UsageError(f"dtype {given!r} is not accepted; {', '.join(accepted)} are{near}")
    return accepted[name]
