"""Expressions of Triton: masks, casts, evictions, and numbers with exactly their type."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Const
from aotpack.render.triton.dialect import TRITON
from tests.schedule.programs import BF16, F32, I64


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (True, DType.BOOL, "True"),
        (2, DType.INT32, "2"),
        (2.0, F32, "2.0"),
        (2, I64, "tl.full([], 2, tl.int64)"),
        (2.0, DType.FLOAT64, "tl.full([], 2.0, tl.float64)"),
        (float("-inf"), F32, 'float("-inf")'),
    ],
)
def test_numbers_that_triton_would_type_otherwise_say_their_type(
    value: float, dtype: DType, text: str
) -> None:
    assert TRITON.literal(Const(value, dtype)) == text


def test_memory_is_masked_where_there_are_conditions() -> None:
    assert TRITON.load("x + i", (), F32) == "tl.load(x + i)"
    assert TRITON.load("x + i", ("a", "b"), F32) == "tl.load(x + i, mask=a & b, other=0)"
    assert TRITON.store("x + i", "t", ("a",), F32) == "tl.store(x + i, t, mask=a)"


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ("first", 'eviction_policy="evict_first"'),
        ("last", 'eviction_policy="evict_last"'),
        ("past", 'cache_modifier=".cg"'),
    ],
)
def test_what_caches_are_told(keep: str, words: str) -> None:
    assert TRITON.load("x", (), F32, keep) == f"tl.load(x, {words})"
    assert TRITON.load("x", (), F32) == "tl.load(x)"


def test_short_floats_are_cast_where_they_are_stored_and_plain_numbers_by_triton() -> None:
    assert TRITON.store("x", "t1", (), BF16) == "tl.store(x, t1.to(tl.bfloat16))"
    assert TRITON.store("x", "t1", (), F32) == "tl.store(x, t1)"
    assert TRITON.store("x", "2.0", (), BF16) == "tl.store(x, 2.0)"


@pytest.mark.parametrize(("count", "plain"), [("3", True), ("32", False), ("t2", False)])
def test_a_shift_that_is_in_range_asks_for_none(count: str, plain: bool) -> None:
    text = TRITON.apply("shift_left", ("t1", count), DType.INT32, DType.INT32, None)
    assert (text == f"t1 << {count}") is plain


def test_indices_are_widened_by_a_cast() -> None:
    assert TRITON.wide_index() == ".to(tl.int64)"
