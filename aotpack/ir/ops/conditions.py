"""Index checks as values, without those that the ranges decide."""

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.symbolic.facts import known_le, known_lt
from aotpack.ir.symbolic.integers import Int, Number
from aotpack.ir.values import Apply, Value


def range_checks(index: Int, low: Number, high: Number) -> list[Value]:
    """The conditions for ``low <= index < high`` that are not known to hold."""
    conditions = []
    if not known_le(low, index):
        conditions.append(_compared("ge", index, low))
    if not known_lt(index, high):
        conditions.append(_compared("lt", index, high))
    return conditions


def bounds_checks(index: tuple[Int, ...], shape: tuple[Int, ...]) -> list[Value]:
    """The conditions for an index to lie in a buffer that are not known to hold."""
    pairs = zip(index, shape, strict=True)
    return [condition for part, size in pairs for condition in range_checks(part, 0, size)]


def _compared(op: str, a: Number, b: Number) -> Value:
    return fold(Apply(op, (integer_value(a), integer_value(b)), DType.BOOL))
