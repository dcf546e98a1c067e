"""torch's type promotion, for operators whose compute type is not the result type."""

from collections.abc import Iterable
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.lower.registry import CannotLower


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand for promotion: its type and strength, "tensor", "zero-dim" or "number"."""

    dtype: DType
    strength: str


def number_type(number: object) -> DType:
    """The type a Python number promotes as."""
    if isinstance(number, bool):
        return DType.BOOL
    return DType.FLOAT32 if isinstance(number, float) else DType.INT64


def result_type(operands: Iterable[Operand]) -> DType:
    """The common type: weaker operands matter only where their category is higher."""
    best: dict[str, DType] = {}
    for operand in operands:
        known = best.get(operand.strength)
        best[operand.strength] = promote(known, operand.dtype) if known else operand.dtype
    found: DType | None = None
    for strength in ("tensor", "zero-dim", "number"):
        weaker = best.get(strength)
        if found is None or (weaker is not None and _category(weaker) > _category(found)):
            found = weaker
    if found is None:
        raise ValueError("no operands to find a common type of")
    return found


def promote(a: DType, b: DType) -> DType:
    """torch.promote_types; 8-bit floats have no common type with other floats."""
    if _category(a) < _category(b):
        a, b = b, a
    if _category(a) > _category(b) or a is b:
        return a
    if a.is_float8 or b.is_float8:
        raise CannotLower(f"{a} and {b} have no common type; cast one of them")
    if a.is_float:
        return _wider(a, b) if a.itemsize != b.itemsize else DType.FLOAT32
    if a.facts.kind != b.facts.kind:
        signed = a if a.facts.kind == "int" else b
        return signed if signed.itemsize > 1 else DType.INT16
    return _wider(a, b)


def _wider(a: DType, b: DType) -> DType:
    return a if a.itemsize >= b.itemsize else b


def _category(dtype: DType) -> int:
    return 2 if dtype.is_float else int(dtype is not DType.BOOL)
