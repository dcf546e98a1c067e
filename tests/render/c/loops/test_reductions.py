"""Accumulators in C: their lanes, and the types of their states."""

import re

import pytest

from aotpack.ir.dtypes import DType
from aotpack.render.c.loops.reductions import Accumulator, lane_count, two_pass

F32, F64, I64 = DType.FLOAT32, DType.FLOAT64, DType.INT64


def one(kind: str, dtype: DType = F32) -> Accumulator:
    return Accumulator(kind, dtype, ("a",))


@pytest.mark.parametrize(
    ("accumulators", "extent", "lanes"),
    [
        ([one("max")], None, 32),
        ([one("sum")], None, 16),  # in float64
        ([one("max"), one("sum")], None, 16),
        ([one("max")], 9, 8),
        ([one("max")], 1, 1),
        ([one("max")], 0, 1),
    ],
)
def test_there_are_no_more_lanes_than_elements(
    accumulators: list[Accumulator], extent: int | None, lanes: int
) -> None:
    assert lane_count(accumulators, extent) == lanes


def test_sums_of_float32_are_wide_and_nothing_else_is() -> None:
    assert one("sum").types == (F64,)
    assert one("max").types == (F32,) and one("sum", I64).types == (I64,)
    assert next(iter(one("sum").declare(16))) == "double a[16];"


def test_lanes_are_joined_in_halves() -> None:
    steps = re.findall(r"lane < (\d+); lane\+\+", "\n".join(one("max").join(16)))
    assert steps == ["8", "4", "2", "1"]
    assert one("max").join(1) == []


def test_moments_and_softmax_walk_twice() -> None:
    assert two_pass("welford") and two_pass("softmax")
    assert two_pass("sum") is None and two_pass("max") is None
