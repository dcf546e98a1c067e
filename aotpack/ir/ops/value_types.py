"""The type rules of values and operations: accepted operands, and results."""

from collections.abc import Mapping

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import (
    Attention,
    Computation,
    Matmul,
    Pointwise,
    Reduction,
    Scan,
    Scatter,
    Sort,
)
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import Buffer
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value


def type_complaint(buffers: Mapping[str, Buffer], value: Value) -> str | None:
    """The type error of one node, if there is one."""
    indices: tuple[Int, ...] = ()
    match value:
        case Const():
            expected = bool if value.dtype is DType.BOOL else float if value.dtype.is_float else int
            if type(value.value) is not expected:
                return f"the constant {value.value!r} is not a {value.dtype}"
        case IndexValue():
            indices = (value.index,)
            if not value.dtype.is_integer:
                return f"{value} is an integer of type {value.dtype}"
        case Load():
            indices = value.index
            buffer = buffers[value.buffer]
            if value.dtype is not buffer.dtype.compute:
                return f"{value} of {buffer} is loaded as {value.dtype}"
        case Guarded():
            if value.condition.dtype is not DType.BOOL:
                return f"the condition {value.condition} is {value.condition.dtype}"
            if not value.dtype is value.value.dtype is value.otherwise.dtype:
                return f"{value} chooses between {value.value.dtype} and {value.otherwise.dtype}"
        case Apply():
            return _operator_complaint(value)
    for leaf in (leaf for index in indices for leaf in index.leaves()):
        if isinstance(leaf, Indirect) and not leaf.value.dtype.is_integer:
            return f"{leaf} is an index of type {leaf.value.dtype}"
    return None


def _operator_complaint(value: Apply) -> str | None:
    info = OPS.get(value.op)
    if info is None:
        return f"there is no operator {value.op}"
    if len(value.args) != info.arity:
        return f"{value} has {len(value.args)} operands, {value.op} takes {info.arity}"
    operands = value.args
    if value.op == "where":
        if operands[0].dtype is not DType.BOOL:
            return f"the condition {operands[0]} is {operands[0].dtype}"
        operands = operands[1:]
    found = {operand.dtype: None for operand in operands}
    if len(found) > 1:
        return f"{value} mixes {' and '.join(map(str, found))}"
    (dtype,) = found
    if not info.accepts(dtype):
        return f"{value.op} is not defined on {dtype}"
    expected = info.result_type(dtype, value.dtype)
    return None if value.dtype is expected else f"{value} is {expected}, not {value.dtype}"


def result_types(operation: Computation) -> tuple[DType, ...]:
    """The types of the values that an operation stores, before they are rounded."""
    match operation:
        case Pointwise() | Scatter():
            return (operation.value.dtype,)
        case Reduction() | Scan():
            return MONOIDS[operation.kind].result_dtypes(operation.args[0].dtype)
        case Sort():
            return (operation.value.dtype, DType.INT64)
        case Matmul() | Attention():
            return (operation.operand.accumulator,)
