"""The order of groups under construction: it answers as a search of all dependences does."""

import random

import pytest

from aotpack.schedule.fusion.group_order import GroupOrder


def searched(needs: list[set[int]], start: int, on: int) -> bool:
    pending, seen = [start], set[int]()
    while pending:
        here = pending.pop()
        if here not in seen:
            seen.add(here)
            pending += needs[here]
    return on in seen


@pytest.mark.row("S:L16", "S:M14", "S:inv6", "S:inv7")
@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_a_full_search_does(seed: int) -> None:
    choose = random.Random(seed)
    order, needs = GroupOrder(), list[set[int]]()
    for _ in range(30):
        order.append()
        needs.append(set())
    answers = set()
    for _ in range(120):
        one, other = choose.sample(range(30), 2)
        found = searched(needs, other, one)
        assert order.depends([other], one) is found
        answers.add(found)
        if not found:
            order.add(one, [other])
            needs[one].add(other)
    assert answers == {False, True}


def test_a_group_depends_on_itself() -> None:
    order = GroupOrder()
    order.append()
    order.append()
    assert order.depends([1, 0], 0)
    assert not order.depends([], 0)
