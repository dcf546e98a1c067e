"""A row of keys or values among those of a cache, from where it is made.

    key[b, h, j, d] = where(j == position[b, h], row[b, h, d], cache[b, h, j, d])

A step of a decoder makes the row and appends it to the cache; attention may read it before that.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_of
from aotpack.ir.kernels.key_range import POSITIONS
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, IndexValue, Load, Value


@dataclass(frozen=True, slots=True)
class AppendedRow:
    """``row`` where ``j`` is ``position``; elsewhere ``cached``."""

    position: Value
    row: Value
    cached: Load


def is_at(j: Axis, one: AppendedRow) -> Apply:
    """The condition ``j == position``."""
    return Apply("eq", (IndexValue(Int.of(j), one.position.dtype), one.position), DType.BOOL)


def with_appended_row(j: Axis, one: AppendedRow) -> Apply:
    """A factor of attention with such a row."""
    return Apply("where", (is_at(j, one), one.row, one.cached), one.cached.dtype)


def appended_row(factor: Value, attention: Attention) -> AppendedRow | None:
    """The row among those of a cache in a factor of attention, if it has one."""
    if not isinstance(factor, Apply) or factor.op != "where":
        return None
    condition, row, cached = factor.args
    if not isinstance(cached, Load) or not isinstance(condition, Apply) or condition.op != "eq":
        return None
    one, j = AppendedRow(condition.args[1], row, cached), attention.j
    if factor is not with_appended_row(j, one) or one.position.dtype not in POSITIONS:
        return None
    moves = set(axes_of((one.position,))) - {attention.batch, attention.head}
    return None if moves or j in axes_of((row,)) else one


def appended_rows(attention: Attention) -> tuple[AppendedRow, ...]:
    """Those of key and value, where both have one; else none."""
    rows = [appended_row(factor, attention) for factor in (attention.key, attention.value)]
    found = tuple(row for row in rows if row is not None)
    return found if len(found) == len(rows) else ()
