"""The keys that a mask can allow, where it compares their positions.

    mask = j <= at[b] and valid[b, j]    ->    no key behind at[b] has to be read
    mask = j > i - 128 and j <= i        ->    i - 127 <= j <= i

A bound is necessary, not sufficient: the mask still decides about each key between the bounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_of
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, IndexValue, Value

_MIRRORED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
_INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)


@dataclass(frozen=True, slots=True)
class KeyBound:
    """``j <= value + shift`` for an upper bound, ``j >= value + shift`` for a lower one."""

    value: Value
    shift: Int
    is_upper: bool


def key_bounds(attention: Attention) -> tuple[KeyBound, ...]:
    """The bounds that the mask puts on ``j``, from what does not depend on ``j``."""
    if attention.mask is None:
        return ()
    return tuple(_bounds(attention.mask, attention.j))


def _bounds(mask: Value, key: Axis) -> Iterator[KeyBound]:
    if not isinstance(mask, Apply):
        return
    if mask.op in ("logical_and", "bitwise_and"):
        for part in mask.args:
            yield from _bounds(part, key)
    elif mask.op in _MIRRORED:
        left, right = mask.args
        yield from _bound(mask.op, left, right, key)
        yield from _bound(_MIRRORED[mask.op], right, left, key)


def _bound(op: str, left: Value, right: Value, key: Axis) -> Iterator[KeyBound]:
    """The bound of ``key + rest <op> right``."""
    if not isinstance(left, IndexValue) or right.dtype not in _INTEGERS:
        return
    rest = left.index - Int.of(key)
    if key in axes_of((IndexValue(rest, DType.INT64),)) or key in axes_of((right,)):
        return
    strict = {"lt": -1, "gt": 1}.get(op, 0)
    yield KeyBound(right, Int.of(strict) - rest, is_upper=op in ("le", "lt"))
