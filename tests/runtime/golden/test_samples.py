"""Sampled results: any wrong element of a block is seen in its samples or sums."""

import numpy as np
import pytest

from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.golden.law import Check, Limits, compare
from aotpack.runtime.golden.samples import Sampled

SAMPLED = Sampled((40, 50), 60, 64)
F32, I64 = DTYPES["float32"], DTYPES["int64"]
NUMBERS = np.random.default_rng(0).standard_normal((40, 50))


def float_check(found: np.ndarray, bound: float = 1e-5) -> Check:
    """The check of a result whose elements may be off by ``bound``."""
    flat = NUMBERS.reshape(-1)
    places = SAMPLED.places()
    own = np.full(len(places), bound, np.float32).view(np.uint32) >> 16
    sums, slack = SAMPLED.float_sums(flat), SAMPLED.float_slack(flat, np.full(len(flat), bound))
    limits = Limits(own.astype(np.uint16), None, sums, slack, SAMPLED)
    return compare("y", found, flat[places].astype(np.float32), F32, bound, limits)


def test_positions_are_the_edges_of_blocks_and_others() -> None:
    places = SAMPLED.places()
    assert {0, 63, 1999} <= set(places) and len(np.unique(places)) == len(places)
    assert places.min() == 0 and places.max() == 1999 and 60 <= len(places) <= 125
    assert np.array_equal(Sampled((3,), 16, 64).places(), [0, 1, 2])


def test_right_floats_pass() -> None:
    noise = np.random.default_rng(1).uniform(-1e-5, 1e-5, NUMBERS.shape)
    assert float_check(NUMBERS.astype(np.float32)).is_passed
    assert float_check(NUMBERS + 0.9 * noise).is_passed
    assert float_check(NUMBERS + 0.9e-5).is_passed


@pytest.mark.parametrize("number", range(0, 2000, 97))
def test_any_wrong_float_fails(number: int) -> None:
    for wrong in (0.0, np.nan, np.inf, NUMBERS.flat[number] + 0.01):
        found = NUMBERS.copy()
        found.flat[number] = wrong
        assert not float_check(found).is_passed


def test_two_elements_of_a_block_in_each_others_place_fail() -> None:
    found = NUMBERS.copy().reshape(-1)
    found[70:80] = found[70:80][::-1].copy()
    assert not float_check(found.reshape(NUMBERS.shape)).is_passed


def integer_check(found: np.ndarray, ranges: dict[int, tuple[int, int]]) -> Check:
    """The check of the integers 0 to 1999, of which some have ranges."""
    flat = np.arange(2000)
    low, high = flat.copy(), flat.copy()
    for place, (least, most) in ranges.items():
        low[place], high[place] = least, most
    places = SAMPLED.places()
    rows = [(n, low[p], high[p]) for n, p in enumerate(places) if p in ranges]
    sums = SAMPLED.integer_range(flat, low, high)
    limits = Limits(None, np.array(rows, np.int64).reshape(-1, 3), sums, None, SAMPLED)
    return compare("i", found.reshape(40, 50), flat[places], I64, 0.0, limits)


@pytest.mark.parametrize("number", range(0, 2000, 97))
def test_any_wrong_integer_fails_unless_it_has_a_range(number: int) -> None:
    found = np.arange(2000)
    assert integer_check(found, {}).is_passed
    found[number] += 1
    check = integer_check(found, {})
    assert not check.is_passed and "WRONG" in str(check)
    assert integer_check(found, {number: (number, number + 1)}).is_passed
    found[number] += 300
    assert not integer_check(found, {number: (number, number + 1)}).is_passed


def test_large_integers_with_a_range_are_not_summed() -> None:
    flat = np.array([2**40, 5])
    one = Sampled((2,), 16, 64)
    least, most = one.integer_range(flat, flat, flat)[0]
    assert least == most
    least, most = one.integer_range(flat, flat, np.add(flat, [1, 0]))[0]
    assert (least, most) == (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
