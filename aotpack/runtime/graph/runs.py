"""Partitions a plan into runs: launches, which a CUDA graph can hold, and host calls between."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby


def partitions(
    after: Sequence[tuple[int, ...]], fits: Sequence[bool]
) -> tuple[tuple[bool, tuple[int, ...]], ...]:
    """The fewest runs of steps with equal ``fits`` that the dependences allow.

    ``after`` gives the predecessors of each step; ``fits`` is true if a graph can hold it. A run
    that takes every ready step leaves no later run more work, so greedy order is optimal; the first
    run may fit or not, and the better of these two orders is taken.
    """
    first, second = (_greedy_order(after, fits, begin) for begin in (True, False))
    order = second if _count(second, fits) < _count(first, fits) else first
    return tuple((fit, tuple(run)) for fit, run in groupby(order, key=fits.__getitem__))


def _greedy_order(after: Sequence[tuple[int, ...]], fits: Sequence[bool], begin: bool) -> list[int]:
    """An order of the steps in runs that take all ready steps, earliest first."""
    followers: list[list[int]] = [[] for _ in after]
    waiting = [len(before) for before in after]
    for step, before in enumerate(after):
        for one in before:
            followers[one].append(step)
    ready = {
        verdict: [s for s, n in enumerate(waiting) if not n and fits[s] is verdict]
        for verdict in (True, False)
    }
    for heap in ready.values():
        heapify(heap)
    order: list[int] = []
    verdict = begin
    while len(order) < len(after):
        while ready[verdict]:
            step = heappop(ready[verdict])
            order.append(step)
            for follower in followers[step]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heappush(ready[fits[follower]], follower)
        verdict = not verdict
    return order


def _count(order: Sequence[int], fits: Sequence[bool]) -> int:
    """The runs of an order."""
    return sum(1 for _ in groupby(order, key=fits.__getitem__))
