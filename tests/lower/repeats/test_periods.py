"""Stretches of lists: pieces that follow themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.lower.repeats.periods import Stretch, stretches


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("xababab", Stretch(1, 2, 3, 0)),
        ("xabababa", Stretch(1, 2, 3, 1)),
        ("abcdabcd", Stretch(0, 4, 2, 0)),
        ("xxabcabcabcabyy", Stretch(2, 3, 3, 2)),
    ],
)
def test_the_longest_stretch_comes_first(text: str, found: Stretch) -> None:
    assert stretches(text, 2)[0] == found


@pytest.mark.parametrize("text", ["", "a", "abc", "abcxabc", "aa"])
def test_pieces_that_do_not_follow_themselves_are_none(text: str) -> None:
    assert stretches(text, 2) == []


@given(st.text("ab", max_size=30))
def test_pieces_are_equal_and_no_stretch_is_longer(text: str) -> None:
    for one in stretches(text, 1):
        end = one.start + one.count * one.period + one.slack
        inside = text[one.start : end]
        assert one.count > 1 and one.slack < one.period
        assert all(a == b for a, b in zip(inside, inside[one.period :], strict=False))
        assert text[end : end + 1] != text[end - one.period : end - one.period + 1]
