"""What is known about an elementwise operator: a row of the table in ``ir/ops/optable.py``."""

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
"""The type of the other kind with as many bits."""

CODES = {DType.FLOAT32: DType.UINT8, DType.UINT8: DType.FLOAT32}
"""Numbers and the codes of 8-bit floats."""


class Cost(IntEnum):
    """The instructions of an operator for each element, about."""

    ONE = 1
    FEW = 2
    MANY = 3


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An elementwise operator.

    ``result``: "same" as the operands, "bool", "given" by the node, "twin": the type of
    ``TWINS``, or "code": that of ``CODES``. ``operands`` are the types and kinds of type that it
    accepts. ``ulp`` bounds the error in the last place of the result, or of the operand where that
    is larger (``of_operand``: the operand times a share that is rounded near 1).
    A small change of an operand of an operator that ``is_discontinuous`` can change the result by a
    whole step.
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
        """The type that comes of operands of a type; ``given`` is what a node says."""
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
