"""Cuts a plan into runs: steps that a CUDA graph can hold, between host calls that it cannot.

What cannot be in a graph: a step that is no kernel (``HostCall``).
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby


def partitions(
    after: Sequence[tuple[int, ...]], fits: Sequence[bool]
) -> tuple[tuple[bool, tuple[int, ...]], ...]:
    """Maximal runs of steps with one verdict each, as few as the dependences admit.

    ``after`` gives the earlier steps each step follows, ``fits`` whether a graph can hold it. A run
    that takes whatever is ready leaves no later run more to do, so the best order is one of two:
    that which begins with a run that fits, and that which begins with one that does not.
    """
    first, second = (_drained(after, fits, begin) for begin in (True, False))
    order = second if _count(second, fits) < _count(first, fits) else first
    return tuple((fit, tuple(run)) for fit, run in groupby(order, key=fits.__getitem__))


def _drained(after: Sequence[tuple[int, ...]], fits: Sequence[bool], begin: bool) -> list[int]:
    """An order of the steps in runs that take all that is ready, earliest first."""
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
