"""When a result is right: as a tensor, and each of its elements."""

import re

import numpy as np
import pytest

from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.golden.law import Limits, compare

BF16, F32, I64 = DTYPES["bfloat16"], DTYPES["float32"], DTYPES["int64"]


def test_the_accuracy_law() -> None:
    reference, dtype = np.array([1.0, -8.0, np.inf]), DTYPES["bfloat16"]
    near, far = (reference + np.array([0, error, 0]) for error in (0.07, 0.09))
    assert compare("y", near, reference, dtype, 0.01).is_passed
    assert not compare("y", far, reference, dtype, 0.01).is_passed
    assert not compare("y", np.array([1.0, -8.0, 0.0]), reference, dtype, 0.01).is_passed
    assert not compare("y", np.array([np.nan, -8.0, np.inf]), reference, dtype, 0.01).is_passed
    assert not compare("y", near[:2], reference, dtype, 0.01).is_passed
    words = str(compare("y", far, reference, dtype, 0.01))
    assert words == "y: largest error 0.09, eager's 0.01, allowed 0.0775: WRONG"
    exact = np.array([1, 2])
    assert compare("i", exact, exact, DTYPES["int64"], 0.0).is_passed
    assert not compare("i", exact, exact + 1, DTYPES["int64"], 0.0).is_passed


def bits(*bounds: float) -> np.ndarray:
    """Bounds as bfloat16."""
    return (np.array(bounds, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize(("error", "is_right"), [(0.0, True), (0.25, True), (0.5, False)])
def test_small_numbers_beside_a_large_one_have_bounds_of_their_own(
    error: float, is_right: bool
) -> None:
    reference = np.array([1e6, 1.0, 2.0], np.float32)
    found = reference + np.array([0, error, 0], np.float32)
    assert compare("y", found, reference, F32, 10.0).is_passed, "by the tensor's bound alone"
    check = compare("y", found, reference, F32, 10.0, Limits(bits(16.0, 0.25, 0.25)))
    assert check.is_passed is is_right
    if not is_right:
        assert str(check) == "y: error 0.5 at [1], eager's 10, allowed 0.25: WRONG"


def test_what_eager_does_not_measure_counts_for_nothing() -> None:
    reference, found = np.array([7e4, 1.0]), np.array([np.inf, 1.0])
    assert compare("y", found, reference, F32, 0.0, Limits(bits(np.inf, 0))).is_passed
    assert not compare("y", found, reference, F32, 0.0, Limits(bits(1.0, 0))).is_passed


def test_elements_that_are_not_compared_are_counted_and_never_all() -> None:
    reference, found = np.array([7e4, 1.0, 8e4]), np.array([np.inf, 1.0, 0.0])
    check = compare("y", found, reference, F32, 0.0, Limits(bits(np.inf, 0, np.inf)))
    words = "y: largest error 0, eager's 0, allowed 0, 2 elements not compared: eager overflows: ok"
    assert check.is_passed and str(check) == words
    check = compare("y", found, reference, F32, 0.0, Limits(bits(np.inf, np.inf, np.inf)))
    assert not check.is_passed and str(check) == "y: not compared: eager overflows: WRONG"


def test_integers_are_equal_or_in_their_range() -> None:
    reference, ranges = np.arange(6), np.array([[2, 1, 4], [5, 5, 9]])
    for found, is_right in (
        ([0, 1, 2, 3, 4, 5], True),
        ([0, 1, 4, 3, 4, 9], True),
        ([0, 1, 5, 3, 4, 5], False),
        ([0, 1, 2, 3, 4, 4], False),
        ([0, 2, 2, 3, 4, 5], False),
    ):
        check = compare("i", np.array(found), reference, I64, 3.0, Limits(ranges=ranges))
        assert check.is_passed is is_right


def test_right_integers_that_are_not_eagers_are_counted() -> None:
    reference, ranges = np.arange(6), np.array([[2, 1, 4], [5, 5, 9]])
    limits = Limits(ranges=ranges, eager=np.array([3, 5]))
    for found, words in (
        ([0, 1, 3, 3, 4, 5], "i: 0 elements are wrong: ok"),
        ([0, 1, 2, 3, 4, 9], "i: 0 elements are wrong (2 differ from eager's where a rounding .*"),
        ([0, 1, 9, 3, 4, 9], r"i: 1 elements are wrong, first at \[2\] (1 differ .*: WRONG"),
    ):
        check = compare("i", np.array(found), reference, I64, 3.0, limits)
        assert re.fullmatch(words.replace(" (", r" \("), str(check))


def test_eagers_errors_excuse_no_integer() -> None:
    check = compare("i", np.array([0, 2, 3, 4, 5, 6]), np.arange(6), I64, 3.0)
    assert str(check) == "i: 5 elements are wrong, first at [1]: WRONG"
