"""The keys that a mask can allow, where it compares their positions.

    mask = j <= at[b] and valid[b, j]    ->    no key behind at[b] has to be read
    mask = j > i - 128 and j <= i        ->    i - 127 <= j <= i

A bound is necessary, not sufficient: the mask still decides about each key between the bounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_of
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, IndexValue, Value

FARTHEST_SHIFT = 2**61  # what is added to it or taken from it stays an int64
_CONJUNCTIONS = ("logical_and", "bitwise_and")
_MIRRORED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
POSITIONS = (DType.INT32, DType.INT64)  # types that hold any of them
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


def is_upper_bound(attention: Attention) -> bool:
    """True if the mask is nothing but upper bounds: it allows all keys up to the smallest."""
    mask, key = attention.mask, attention.j
    return mask is not None and all(
        any(bound.is_upper for bound in _bounds(part, key)) for part in _conjuncts(mask)
    )


def _conjuncts(mask: Value) -> Iterator[Value]:
    if isinstance(mask, Apply) and mask.op in _CONJUNCTIONS:
        for part in mask.args:
            yield from _conjuncts(part)
    else:
        yield mask


def _bounds(mask: Value, key: Axis) -> Iterator[KeyBound]:
    for part in _conjuncts(mask):
        if isinstance(part, Apply) and part.op in _MIRRORED:
            left, right = part.args
            yield from _bound(part.op, left, right, key)
            yield from _bound(_MIRRORED[part.op], right, left, key)


def _bound(op: str, left: Value, right: Value, key: Axis) -> Iterator[KeyBound]:
    """The bound of ``key + rest <op> right``."""
    if not isinstance(left, IndexValue) or left.dtype not in POSITIONS:
        return
    if right.dtype not in _INTEGERS:
        return
    rest = left.index - Int.of(key)
    if key in axes_of((IndexValue(rest, DType.INT64),)) or key in axes_of((right,)):
        return
    shift = Int.of({"lt": -1, "gt": 1}.get(op, 0)) - rest
    if _is_within(left.index, 2 ** (8 * left.dtype.itemsize - 1)) and _is_within(
        shift, FARTHEST_SHIFT
    ):
        yield KeyBound(right, shift, is_upper=op in ("le", "lt"))


def _is_within(index: Int, most: int) -> bool:
    """False if an index is known to reach that far; sizes without an upper bound never do."""
    return all(abs(end) < most or isinf(end) for end in bounds(index))
