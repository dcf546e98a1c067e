"""Dependences of steps, and plans cut into runs."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.runtime.graph.dependence import Access, dependences
from aotpack.runtime.memory.packing import pack
from aotpack.runtime.plan import Buffer

A, B, C, D, Z = 1, 2, 3, 4, 5
cells = st.lists(st.sampled_from((A, B, C, D)), max_size=2, unique=True).map(tuple)
plans = st.lists(st.builds(Access, cells, cells), max_size=8)


def all_before(after: Sequence[tuple[int, ...]]) -> list[set[int]]:
    """For each step all it follows, directly or not."""
    found: list[set[int]] = []
    for direct in after:
        found.append(set(direct).union(*(found[one] for one in direct)))
    return found


@pytest.mark.row("S:T9")
@given(plans, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=2))
def test_whatever_meets_in_memory_is_ordered_and_nothing_is_said_twice(
    plan: list[Access], spans: list[tuple[int, int]]
) -> None:
    """Two of the names lie in an arena, in bytes that may be the same."""
    places = {n: (start, start + size) for n, (start, size) in zip((A, B), spans, strict=True)}
    shared = range(max(p[0] for p in places.values()), min(p[1] for p in places.values()))
    if shared:
        plan = [one for one in plan if not {A, B} <= {*one.reads, *one.writes}]
        plan = [one for one in plan if A in one.writes or A not in one.reads] + [
            one for one in plan if B in one.writes
        ]
    after = dependences(plan, places)
    before = all_before(after)
    for late, early in itertools.combinations(range(len(plan) - 1, -1, -1), 2):
        one, other = plan[early], plan[late]
        meet = set(one.writes) & {*other.reads, *other.writes} or set(one.reads) & set(other.writes)
        taken = shared and {*one.writes} & {A, B} and {*other.writes} & {A, B}
        if meet or taken:
            assert early in before[late]
    for direct in after:
        assert direct == tuple(sorted(direct))
        assert not any(one in before[other] for one in direct for other in direct)


def test_readers_of_one_tensor_do_not_wait_for_each_other() -> None:
    plan = [Access((), (A,)), Access((A,), (B,)), Access((A,), (C,))]
    assert dependences(plan, {}) == ((), (0,), (0,))


def test_memory_that_is_used_again_is_waited_for() -> None:
    buffers = [Buffer("a", 512, 0, 1), Buffer("b", 256, 1, 2), Buffer("c", 300, 2, 3)]
    offsets, total = pack(buffers)
    places = {
        cell: (offset, offset + one.size)
        for cell, one, offset in zip((A, B, C), buffers, offsets, strict=True)
    }
    assert total == 768 and places[C][0] == places[A][0]
    plan = [Access((), (A,)), Access((A,), (B,)), Access((), (C,))]
    assert dependences(plan, places) == ((), (0,), (1,))
    assert dependences(plan, {}) == ((), (0,), ())


def test_memory_taken_bit_by_bit_is_waited_for_until_all_of_it_is_taken() -> None:
    places = {A: (0, 4), B: (0, 2), C: (2, 4), D: (1, 3)}
    plan = [
        Access((), (A,)),
        Access((A,), (Z,)),
        Access((), (B,)),
        Access((), (C,)),
        Access((), (D,)),
    ]
    assert dependences(plan, places) == ((), (0,), (1,), (1,), (2, 3))
