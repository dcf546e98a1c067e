"""Floor division and modulo take out what divides, and joining digits undoes them."""

import pytest
from hypothesis import given, settings

from aotpack.ir.symbolic.division import exact_quotient
from aotpack.ir.symbolic.integers import Axis, Int
from tests.ir.integer_strategies import DIVISORS, FLAT, PAIRS, POINTS, ROW, J, K, Pair, S, T

i, j, k, flat, s, t = map(Int.of, (ROW, J, K, FLAT, S, T))


@pytest.mark.row("C:A2", "C:A8")
@settings(max_examples=150, deadline=None)
@given(PAIRS, DIVISORS)
def test_quotient_and_remainder_make_the_number(pair: Pair, divisor: Pair) -> None:
    quotient, remainder = pair.built // divisor.built, pair.built % divisor.built
    for point in POINTS:
        assert quotient.evaluate(point) == pair.direct(point) // divisor.direct(point)
        assert remainder.evaluate(point) == pair.direct(point) % divisor.direct(point)


@pytest.mark.row("C:A6", "C:A6b")
@settings(max_examples=80, deadline=None)
@given(PAIRS, DIVISORS)
def test_digits_join_to_the_number(pair: Pair, divisor: Pair) -> None:
    joined = pair.built // divisor.built * divisor.built + pair.built % divisor.built
    for point in POINTS[::5]:
        assert joined.evaluate(point) == pair.direct(point)


@pytest.mark.row("S:A10", "S:F4", "C:A6")
def test_reshape_there_and_back_vanishes() -> None:
    x = Int.of(Axis("x", s * 12 * 64))
    digits = (x // 768, x // 64 % 12, x % 64)
    assert digits[0] * 768 + digits[1] * 64 + digits[2] is x


@pytest.mark.row("C:A2")
def test_split_of_a_joined_index_gives_its_digits() -> None:
    flat = (i * t + j) * 6 + k
    assert flat // (t * 6) is i
    assert flat // 6 % t is j
    assert flat % 6 is k


@pytest.mark.parametrize(
    ("num", "den", "want"),
    [(s * 6, Int.of(3), s * 2), (s * t, t, s), (s * 6 + 1, Int.of(3), None), (s, t, None)],
)
def test_exact_quotient(num: Int, den: Int, want: Int | None) -> None:
    assert exact_quotient(num, den) is want
