"""Positions of extremes: values are reduced first, positions only where the extreme was found."""

import pytest

from aotpack.render.triton.monoids import TRITON_MONOIDS
from tests.render.models import triton_kernel
from tests.schedule.programs import I64, Writer, load

LONG = 50_021  # walked in a loop
SHORT = 1000


def positions(kind: str, length: int) -> str:
    """Of the extreme of each row."""
    w = Writer()
    x = w.input("x", 4096, length)
    made = w.reductions(("p",), [4096], [length], lambda i, r: load(x, i, r), kind=kind, dtype=I64)
    return triton_kernel(w.program(*made))


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_a_row_in_registers_is_reduced_twice_and_not_by_pairs(kind: str) -> None:
    text = positions(kind, SHORT)
    assert f"across_{kind}(" in text and f"combine_{kind[3:]}(" in text
    assert f"combine_{kind}(" not in text


def test_a_loop_keeps_the_first_extreme_that_each_lane_met() -> None:
    """What comes later takes its place only where it is larger, or the first NaN."""
    text = positions("argmax", LONG)
    assert "take = (a0 == a0) & ((b0 > a0) | (b0 != b0))" in text
    assert "group_argmax(" in text
    assert "b0 < a0" in positions("argmin", LONG)


def test_the_latest_of_equals_is_found_by_pairs() -> None:
    """Scans ask for it: there is no across, and no group."""
    latest = [one for one in TRITON_MONOIDS.values() if "(a1 > b1)" in one.combine.text]
    assert latest and not any(one.across or one.group for one in latest)
    first = TRITON_MONOIDS["argmax"]
    assert first.across and first.group and "(a1 > b1)" not in first.combine.text
