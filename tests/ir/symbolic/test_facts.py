"""What is known about an integer holds at every point; and the obvious is known."""

import pytest
from hypothesis import given, settings

from aotpack.ir.symbolic.facts import (
    bounds,
    known_equal,
    known_le,
    known_lt,
    known_multiple,
    known_nonnegative,
    known_one,
    typical,
)
from aotpack.ir.symbolic.integers import Axis, Int, Var, ceil_div, maximum, minimum
from tests.ir.integer_strategies import DIVISORS, FLAT, PAIRS, POINTS, ROW, J, K, Pair, S, T

i, j, k, flat, s, t = map(Int.of, (ROW, J, K, FLAT, S, T))


@pytest.mark.row("S:A8", "C:A8", "C:D11")
@settings(max_examples=250, deadline=None)
@given(PAIRS)
def test_bounds_hold_everywhere(pair: Pair) -> None:
    low, high = bounds(pair.built)
    for point in POINTS:
        assert low <= pair.direct(point) <= high, point


@pytest.mark.row("S:A8")
@settings(max_examples=150, deadline=None)
@given(PAIRS, PAIRS)
def test_known_relations_hold_everywhere(a: Pair, b: Pair) -> None:
    relations = [(a.direct(point), b.direct(point)) for point in POINTS]
    assert not known_le(a.built, b.built) or all(x <= y for x, y in relations)
    assert not known_lt(a.built, b.built) or all(x < y for x, y in relations)
    assert not known_equal(a.built, b.built) or all(x == y for x, y in relations)


@pytest.mark.row("S:A12")
@settings(max_examples=80, deadline=None)
@given(PAIRS, DIVISORS)
def test_known_multiples_hold_everywhere(a: Pair, factor: Pair) -> None:
    if factor.built.constant and known_multiple(a.built, factor.built.constant):
        assert all(a.direct(point) % factor.built.constant == 0 for point in POINTS)


@pytest.mark.row("S:A8", "S:A12", "C:D5", "C:D11")
@pytest.mark.parametrize(
    "known",
    [
        known_lt(i, s),
        known_le(0, s - 1 - i),
        known_lt(i * t + j, s * t),
        known_lt(flat // t, s),
        known_lt(k, 6),
        not known_lt(k, 5),
        known_nonnegative(i * j),
        not known_nonnegative(i - 1),
        known_equal(k // 6, 0),
        not known_equal(i, 0),
        known_one(Int.of(Var("one", 1, 1))),
        not known_one(s),
        known_multiple(i * 8 + 16, 8),
        not known_multiple(i * 8 + 4, 8),
        known_multiple(Int.of(Var("m", 16, 64, 16)) * 3, 16),
        known_le(minimum(s, 3), 3),
        known_le(2, maximum(s, 2)),
        known_le((s + 1) // 2, s),
        known_le((s + 2) // 3 * 2, s + 1),
        not known_le((s + 2) // 3 * 2, s),
        known_le(s // 3 + s // 4, s),
        known_le((s + 2) // 2, s),
        not known_le((s + 3) // 2, s),
        known_le(maximum(0, s - 50), s),
        not known_le(maximum(1, s - 50), s - 1),
        known_le(0, s - minimum(3, s)),
        not known_le(1, s - minimum(3, s)),
        known_equal(maximum(0, maximum(0, s - 50) - s), 0),
    ],
)
def test_the_obvious_is_known(known: bool) -> None:
    assert known


@pytest.mark.row("S:A15", "C:H8", "C:L11")
def test_typical_size_is_the_geometric_middle() -> None:
    assert typical(Int.of(Var("b", 1, 64)) * 2) == 16


def test_parts_of_any_length_end_within_the_whole() -> None:
    whole, count = 1024 * s, minimum(8, maximum(1, s // 4))
    part = Int.of(Axis("part", count))
    within = Int.of(Axis("step", whole // count))
    position = part * (whole // count) + within
    assert known_lt(position, whole) and bounds(position)[1] < 1024 * S.high
    assert not known_lt(position + 1, whole)
    rest = whole - count * (whole // count)
    assert known_nonnegative(rest) and bounds(rest)[1] < 8
    assert not known_nonnegative(rest - 1)


def test_padded_parts_of_any_length_fit_what_the_whole_does() -> None:
    whole, count = 1024 * s, minimum(8, maximum(1, s // 4))
    length = ceil_div(whole, count)
    part = Int.of(Axis("part", count))
    left = minimum(length, maximum(0, whole - part * length))
    assert bounds(count * left)[1] < 2 * 1024 * S.high
    assert bounds(Int.of(0) - count * left)[0] <= -1024 * S.high  # a negative multiple of a minimum
