"""Plans cut into as few runs as dependences admit."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.runtime.graph.runs import partitions


def _runs(order: Sequence[int], fits: Sequence[bool]) -> int:
    return sum(1 for _ in itertools.groupby(order, key=fits.__getitem__))


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[bool]]:
    count = draw(st.integers(0, 6))
    after = [
        tuple(sorted(draw(st.sets(st.integers(0, step - 1), max_size=2))) if step else ())
        for step in range(count)
    ]
    return after, [draw(st.booleans()) for _ in range(count)]


@pytest.mark.row("S:P5", "S:P6", "S:P8", "S:inv41")
@given(dags())
def test_partitions_are_complete_ordered_and_as_few_as_can_be(
    plan: tuple[list[tuple[int, ...]], list[bool]],
) -> None:
    after, fits = plan
    found = partitions(after, fits)
    order = [step for _, run in found for step in run]
    place = {step: number for number, step in enumerate(order)}
    assert sorted(order) == list(range(len(after)))
    assert all(place[one] < place[step] for step in order for one in after[step])
    assert all(fits[step] is verdict for verdict, run in found for step in run)
    possible = (
        candidate
        for candidate in itertools.permutations(range(len(after)))
        if all(candidate.index(o) < candidate.index(s) for s in candidate for o in after[s])
    )
    assert len(found) == min(_runs(candidate, fits) for candidate in possible)


def test_a_plan_of_launches_alone_keeps_its_order() -> None:
    assert partitions([(), (), (0,), (1, 2)], [True] * 4) == ((True, (0, 1, 2, 3)),)
    assert partitions([], []) == ()
