"""Every operator of the table on every type that it accepts, with the results that are exact."""

from dataclasses import dataclass

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.opinfo import OpInfo
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from tests.ir.samples import BLOCK, COMPUTE, INTEGER_DIVISIONS, operands

CASTS = {
    "float": (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL),
    "int": COMPUTE,
    "uint": COMPUTE,
    "bool": COMPUTE,
}


@dataclass(frozen=True, slots=True)
class Form:
    """One operator on one type, with its result type.

    ``ends_in`` is the 16-bit type that results end up in, for a cheaper form.
    """

    info: OpInfo
    operand: DType
    result: DType
    ends_in: DType | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What its operands are called: numbers x and y, the condition c."""
        names = ("c", "x", "y") if self.info.name == "where" else ("x", "y")
        return names[: self.info.arity]

    def __str__(self) -> str:
        return f"{self.info.name}({self.operand}) -> {self.ends_in or self.result}"


def forms(operand: DType) -> list[Form]:
    """Every operator that accepts the type; of casts, one for each type to cast to."""
    found: list[Form] = []
    for info in OPS.values():
        if not info.accepts(operand):
            continue
        if info.name == "cast":
            found += [Form(info, operand, dtype) for dtype in CASTS[operand.facts.kind]]
            continue
        found.append(Form(info, operand, info.result_type(operand, operand)))
    return found


def all_forms() -> list[Form]:
    """The forms of all types that are computed with."""
    return [form for operand in COMPUTE for form in forms(operand)]


def expected(form: Form) -> tuple[Array, Array]:
    """The exact results, and where they are defined."""
    x, y, condition = operands(form.operand)
    given = [x, y][: form.info.arity] if form.info.name != "where" else [condition, x, y]
    defined = np.ones(BLOCK, bool)
    if form.info.name in INTEGER_DIVISIONS and form.operand.is_integer:
        overflows = (x == np.iinfo(x.dtype).min) & (
            y == y.dtype.type(-1 if x.dtype.kind == "i" else 0)
        )
        defined = (y != 0) & ~overflows
        given[1] = np.where(defined, y, 1).astype(y.dtype)
    if form.info.name == "cast" and form.operand.is_float and form.result.is_integer:
        limits = np.iinfo(form.result.facts.numpy or "")
        with np.errstate(invalid="ignore"):
            defined = (x > limits.min) & (x < limits.max)
    exact = form.info.name != "truncdiv"  # which cuts the rounded quotient
    if form.operand.is_float and form.result.is_float and exact:
        given = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in given]
    result_type = np.float64 if form.result.is_float else np.dtype(form.result.facts.numpy)
    return form.info.compute(given, np.dtype(result_type)), defined


def error_bound(form: Form, want: Array) -> Array:
    """The admitted absolute error: the table's, in units of the last place, or a denormal."""
    own = np.dtype(form.result.facts.numpy)
    with np.errstate(all="ignore"):
        rounded = want.astype(own)
        if form.info.of_operand:
            rounded = np.maximum(np.abs(rounded), np.abs(operands(form.operand)[0]))
        unit = np.abs(np.spacing(np.where(np.isfinite(rounded), rounded, 1)).astype(np.float64))
    return unit * (form.info.ulp + 0.5) + np.finfo(own).tiny
