"""The range of keys that a mask allows, from comparisons of their positions."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.key_range import is_upper_bound, key_bounds
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int, Number
from aotpack.ir.values import Apply, IndexValue, Value
from tests.schedule.programs import BF16, Writer, load

W = Writer()
AT = W.input("at", 2, dtype=DType.INT64)
AT32 = W.input("at32", 2, dtype=DType.INT32)
LEFT = W.input("left", 2, 300, dtype=DType.INT64)
RATE = W.input("rate", 2, dtype=DType.FLOAT64)
VALID = W.input("valid", 2, 300, dtype=DType.BOOL)
SIZES = (2, 4, 3, 300, 64, 64)
B, H, Q, J, D, E = (Axis(f"a{n}", Int.of(size)) for n, size in enumerate(SIZES))
LAST = load(AT, B)


def position(index: Number | Axis) -> Value:
    return IndexValue(Int.of(index), DType.INT64)


def both(*parts: Value) -> Value:
    return Apply("logical_and", parts, DType.BOOL)


def compare(op: str, a: Value, b: Value) -> Value:
    return Apply(op, (a, b), DType.BOOL)


def attention(mask: Value | None) -> Attention:
    q = W.input("q", 2, 4, 300, 64, dtype=BF16)
    slots = (load(q, B, H, Q, D), load(q, B, H, J, D), load(q, B, H, J, E))
    return Attention("y", B, H, Q, J, D, E, *slots, 0.5, False, None, mask, BF16)


def bounds_of(mask: Value | None) -> list[tuple[Value, Int, bool]]:
    return [(one.value, one.shift, one.is_upper) for one in key_bounds(attention(mask))]


@pytest.mark.parametrize(
    ("mask", "bound"),
    [
        (compare("le", position(J), LAST), (LAST, 0, True)),
        (compare("lt", position(J), LAST), (LAST, -1, True)),
        (compare("ge", LAST, position(J)), (LAST, 0, True)),
        (compare("gt", position(J), LAST), (LAST, 1, False)),
        (compare("le", LAST, position(Int.of(J) + Q)), (LAST, -Int.of(Q), False)),
        (compare("le", position(J), position(Int.of(Q) + 7)), (position(Int.of(Q) + 7), 0, True)),
        (compare("le", position(Int.of(J) + 2**60), LAST), (LAST, -(2**60), True)),
    ],
)
def test_a_comparison_is_a_bound(mask: Value, bound: tuple[Value, Number, bool]) -> None:
    value, shift, is_upper = bound
    assert bounds_of(mask) == [(value, Int.of(shift), is_upper)]
    valid = load(VALID, B, J)
    assert bounds_of(both(valid, mask)) == [(value, Int.of(shift), is_upper)]


@pytest.mark.parametrize(
    "mask",
    [
        None,
        load(VALID, B, J),
        compare("le", position(J), load(LEFT, B, J)),
        compare("le", position(Int.of(J) * 2), LAST),
        compare("le", position(-Int.of(J)), LAST),
        compare("le", position(Int.of(J) % 7), LAST),
        compare("le", position(Int.of(J) + 2**61), LAST),
        compare("le", IndexValue(Int.of(J) + 2**31, DType.INT32), load(AT32, B)),
        compare("ne", position(J), LAST),
        compare("le", IndexValue(Int.of(J), DType.INT8), IndexValue(Int.of(B), DType.INT8)),
        compare("le", Apply("cast", (position(J),), DType.FLOAT64), load(RATE, B)),
        Apply("logical_or", (compare("le", position(J), LAST), load(VALID, B, J)), DType.BOOL),
    ],
)
def test_anything_else_is_none(mask: Value | None) -> None:
    assert bounds_of(mask) == []


def test_a_window_has_two() -> None:
    window = both(compare("le", position(J), LAST), compare("gt", position(Int.of(J) + 9), LAST))
    assert [is_upper for _, _, is_upper in bounds_of(window)] == [True, False]


def test_a_mask_of_upper_bounds_allows_what_is_before_all_of_them() -> None:
    last, row = compare("le", position(J), LAST), compare("le", position(J), position(Q))
    assert is_upper_bound(attention(last)) and is_upper_bound(attention(both(last, row)))
    later = compare("gt", position(J), LAST)
    for mask in (None, later, both(last, later), both(last, load(VALID, B, J))):
        assert not is_upper_bound(attention(mask))
