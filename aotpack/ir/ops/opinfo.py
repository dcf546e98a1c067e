"""What is known about an elementwise operator: a row of the table in ``ir/ops/optable.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import reference
from aotpack.ir.ops.reference import Array, Reference

FAST_ULP = 0.25
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
    ``TWINS``, or "code": that of ``CODES``. ``texts`` is keyed by the
    operand's dtype or kind of dtype; a missing key means that the operator has no such form.
    ``fast_texts`` are cheaper forms for float32 operands by the 16-bit type all results end up in:
    within ``FAST_ULP`` of that type's last place. bfloat16 takes float16's where it has no own.
    ``ulp`` bounds the error of ``texts`` in the last place of the result, or of the operand where
    that is larger (``of_operand``: the operand times a share that is rounded near 1).
    A small change of an operand of an operator that ``is_discontinuous`` can change the result by a
    whole step.
    """

    name: str
    arity: int
    result: Literal["same", "bool", "given", "twin", "code"]
    texts: Mapping[str, str]
    reference: Reference
    ulp: float = 0
    fast_texts: Mapping[DType, str] = field(default_factory=dict)
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
        return _choose(self.texts, dtype) is not None

    def compute(self, operands: Sequence[Array], dtype: np.dtype[np.generic]) -> Array:
        """The result for arrays of the operands' types, in ``dtype``; no warning for NaN or inf."""
        with np.errstate(all="ignore"):
            return reference.cast(np.asarray(self.reference(*operands)), dtype)

    def triton(
        self,
        operands: Sequence[str],
        operand: DType,
        dtype: DType,
        *,
        ends_in: DType | None = None,
    ) -> str:
        """Triton text for operands of type ``operand`` (where: its arms) giving ``dtype``.

        ``ends_in`` is the 16-bit type that everything computed from it is rounded to, if any.
        """
        text = _choose(self.texts, operand)
        if ends_in is not None and operand is DType.FLOAT32:
            coarsest = self.fast_texts.get(DType.FLOAT16, text)
            text = self.fast_texts.get(ends_in, coarsest)
        if text is None:
            raise TypeError(f"operator {self.name} has no form for {operand}")
        if self.name == "cast" and dtype is DType.UINT8 and operand.is_float:
            text = "{0}.to(tl.int64).to(tl.uint8)"
        return text.format(*operands, type=dtype.facts.triton, bits=operand.facts.bits)


def _choose(texts: Mapping[str, str], dtype: DType) -> str | None:
    return texts.get(str(dtype)) or texts.get(dtype.facts.kind)
