"""A key or value of attention that the same step adds to a cache.

    key[b, h, j, d] = where(j == position[b], new[b, h, d], cache[b, h, j, d])

The cache is read as it was before the step; what is written there comes later. So its keys may be
requested before anything that the step computes is known.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_of
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, IndexValue, Load, Value


@dataclass(frozen=True, slots=True)
class NewRow:
    """``new`` where ``j`` is ``position``; elsewhere ``cached``."""

    position: Value
    new: Value
    cached: Load


def is_at(j: Axis, row: NewRow) -> Apply:
    """The condition ``j == position``."""
    return Apply("eq", (IndexValue(Int.of(j), row.position.dtype), row.position), DType.BOOL)


def with_new_row(j: Axis, row: NewRow) -> Apply:
    """A factor of attention with a new row."""
    return Apply("where", (is_at(j, row), row.new, row.cached), row.cached.dtype)


def new_row(factor: Value, j: Axis) -> NewRow | None:
    """The new row of a factor of attention, if it has one."""
    if not isinstance(factor, Apply) or factor.op != "where":
        return None
    is_new, new, cached = factor.args
    if not isinstance(cached, Load) or not isinstance(is_new, Apply) or is_new.op != "eq":
        return None
    row = NewRow(is_new.args[1], new, cached)
    is_one = factor is with_new_row(j, row) and j not in axes_of((row.position, new))
    return row if is_one else None


def new_rows(attention: Attention) -> tuple[NewRow, ...]:
    """Those of key and value, where the step adds one of each to what is cached; else none."""
    rows = [new_row(factor, attention.j) for factor in (attention.key, attention.value)]
    found = tuple(row for row in rows if row is not None)
    return found if len(found) == len(rows) else ()
