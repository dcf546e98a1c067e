"""The bytes that kernels move, beside the least: the counts of ``tools/bench_traffic.py``."""

from dataclasses import replace

import pytest

from tools.bench_traffic import count, table
from tools.traffic_cases import CASES

BY_NAME = {case.name: case for case in CASES}


def test_the_cases_are_at_least_forty() -> None:
    assert len(BY_NAME) == len(CASES) >= 40
    assert all(bool(case.crossing) == bool(case.why) for case in CASES)


@pytest.mark.parametrize("name", ["rms norm of a residual", "int8 per tensor", "linear, softmax"])
def test_kernels_move_what_must_move(name: str) -> None:
    assert 1 <= count(BY_NAME[name]).ratio < 1.02


def test_what_crosses_a_barrier_is_moved() -> None:
    """A tensor is read again behind its largest element: nothing but the rule allows that."""
    row = count(replace(BY_NAME["int8 per tensor"], crossing=0, why=""))
    assert row.ratio > 1.5
    assert "worst 1.8" in table([row])
