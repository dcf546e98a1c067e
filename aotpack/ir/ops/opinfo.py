"""The facts about an elementwise operator: a row of the table in ``ir/ops/optable.py``."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import reference
from aotpack.ir.ops.reference import Array, Reference

TWINS = {
    DType.FLOAT32: DType.INT32,
    DType.FLOAT64: DType.INT64,
    DType.INT32: DType.FLOAT32,
    DType.INT64: DType.FLOAT64,
}
"""The type of the other kind with the same number of bits."""

CODES = {DType.FLOAT32: DType.UINT8, DType.UINT8: DType.FLOAT32}
"""The types of the numbers and the codes of 8-bit floats."""


class Cost(IntEnum):
    """The approximate number of instructions for each element."""

    ONE = 1
    FEW = 2
    MANY = 3


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An elementwise operator.

    ``result``: "same" as the operands, "bool", "given" by the node, "twin" (see ``TWINS``) or
    "code" (see ``CODES``). ``operands`` are the accepted types and kinds of type. ``ulp`` bounds
    the error in the last place of the result, or of the operand if that is larger (``of_operand``:
    the operand times a factor that is rounded near 1). With ``is_discontinuous`` a small change of
    an operand can change the result by a whole step.
    """

    name: str
    arity: int
    result: Literal["same", "bool", "given", "twin", "code"]
    operands: tuple[str, ...]
    reference: Reference
    ulp: float = 0
    commutative: bool = False
    of_operand: bool = False
    cost: Cost = Cost.MANY
    is_discontinuous: bool = False

    def result_type(self, operand: DType, given: DType) -> DType:
        """The result type for an operand type; ``given`` is the type of the node."""
        if self.result == "given":
            return given
        if self.result == "twin":
            return TWINS[operand]
        if self.result == "code":
            return CODES[operand]
        return DType.BOOL if self.result == "bool" else operand

    def accepts(self, dtype: DType) -> bool:
        """True when operands may have this type."""
        return str(dtype) in self.operands or dtype.facts.kind in self.operands

    def compute(self, operands: Sequence[Array], dtype: np.dtype[np.generic]) -> Array:
        """The result for arrays of the operands' types, in ``dtype``; no warning for NaN or inf."""
        with np.errstate(all="ignore"):
            return reference.cast(np.asarray(self.reference(*operands)), dtype)
