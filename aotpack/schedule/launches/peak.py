"""Reorder launches to lower the peak of memory: the best of a few candidate orders.

    a = x @ u; b = y @ v; p = a.sum(); q = b.sum()    ->    a = ...; p = ...; b = ...; q = ...

Candidates are the given order, a greedy order by lowest peak, an order by depth, and a depth-first
order. The one with the lowest estimate is planned. If its peak is not well below that of the user's
order, the latter stays: operations close in the program are close in caches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program, concats_by_part
from aotpack.schedule.launches.order import dependences
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.memory.lifetimes import plan_memory

WORTH = 16  # the peak must fall by this part
LEAST = 2**20  # and by these bytes: reordering may separate kernels that could share a launch
WINDOW = 64  # ready kernels that are compared

Order = Sequence[int]


def reorder_for_memory(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Kernel, ...]:
    """Reorder launches if that lowers the peak of memory well; the same object otherwise."""
    flow = _flow(program, kernels)
    given = range(len(kernels))
    found: tuple[int, Order] = (_estimate(flow, given), given)
    for order in (_by_least_peak(flow), _by_depth(flow), _by_descent(flow)):
        found = min(found, (_estimate(flow, order), order), key=lambda one: one[0])
    moved = tuple(kernels[position] for position in found[1])
    if found[1] is given:
        return kernels
    before, after = (_planned(program, order, strides) for order in (kernels, moved))
    return moved if before - after > max(before // WORTH, LEAST) else kernels


@dataclass(frozen=True, slots=True)
class _Flow:
    """The dependences, allocations and reads of each kernel; bytes at typical sizes."""

    waits: list[set[int]]  # of kernels before it
    allocates: list[int]
    reads: list[tuple[str, ...]]
    sizes: dict[str, int]
    readers: dict[str, int]

    def followers(self) -> list[list[int]]:
        """The kernels that wait for each kernel, in order."""
        found: list[list[int]] = [[] for _ in self.waits]
        for position, waits in enumerate(self.waits):
            for before in waits:
                found[before].append(position)
        return found


def _flow(program: Program, kernels: tuple[Kernel, ...]) -> _Flow:
    whole, results = concats_by_part(program), {*program.results}
    sizes: dict[str, int] = {}
    allocates = []
    for kernel in kernels:
        names = dict.fromkeys(whole.get(name, name) for name in kernel.stored)
        new = {n: typical_bytes(program.buffers[n]) for n in names if n not in {*results, *sizes}}
        sizes |= new
        allocates.append(sum(new.values()))
    reads = [tuple(name for name in kernel.reads if name in sizes) for kernel in kernels]
    readers = dict.fromkeys(sizes, 0)
    for name in (name for each in reads for name in each):
        readers[name] += 1
    return _Flow(dependences(kernels, program), allocates, reads, sizes, readers)


def _estimate(flow: _Flow, order: Order) -> int:
    """The most bytes live at once, if nothing is overwritten in place."""
    left = dict(flow.readers)
    live = peak = 0
    for position in order:
        live += flow.allocates[position]
        peak = max(peak, live)
        for name in flow.reads[position]:
            left[name] -= 1
            live -= flow.sizes[name] * (left[name] == 0)
    return peak


def _planned(program: Program, kernels: tuple[Kernel, ...], strides: Strides) -> int:
    """The peak of the lifetimes that would be planned."""
    spans: dict[str, tuple[int, int]] = {}
    for life in plan_memory(program, kernels, strides):
        first, last = spans.get(life.storage, (life.first, life.last))
        spans[life.storage] = (min(first, life.first), max(last, life.last))
    change = [0] * (len(kernels) + 1)
    given = {*program.inputs, *program.weights, *program.outputs}
    for name, (first, last) in spans.items():
        size = 0 if name in given else typical_bytes(program.buffers[name])
        change[first] += size
        change[last + 1] -= size
    return max(accumulate(change), default=0)


def _by_least_peak(flow: _Flow) -> Order:
    """Greedy: the kernel that keeps the peak lowest, then the one that leaves fewest bytes live."""
    followers = flow.followers()
    waiting = [len(waits) for waits in flow.waits]
    ready = [position for position, count in enumerate(waiting) if not count]
    left = dict(flow.readers)
    live = peak = 0
    order: list[int] = []

    def key(position: int) -> tuple[int, int, int]:
        freed = sum(flow.sizes[name] for name in flow.reads[position] if left[name] == 1)
        new = flow.allocates[position]
        return max(live + new, peak), new - freed, position

    while ready:
        best = min(ready[:WINDOW], key=key)
        ready.remove(best)
        order.append(best)
        peak, change, _ = key(best)
        live += change
        for name in flow.reads[best]:
            left[name] -= 1
        for follower in followers[best]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return order


def _by_depth(flow: _Flow) -> Order:
    """By depth: all kernels that could begin together, one after the other."""
    depth: list[int] = []
    for waits in flow.waits:
        depth.append(1 + max((depth[before] for before in waits), default=0))
    return sorted(range(len(depth)), key=lambda position: (depth[position], position))


def _by_descent(flow: _Flow) -> Order:
    """Depth first: each end of the program after its dependences, the most bytes first."""

    def needs(position: int) -> Iterator[int]:
        weigh = flow.allocates
        return iter(sorted(flow.waits[position], key=lambda before: (-weigh[before], before)))

    seen: set[int] = set()
    order: list[int] = []
    for end in (position for position, after in enumerate(flow.followers()) if not after):
        path = [(end, needs(end))]
        while path:
            position, rest = path[-1]
            before = next((other for other in rest if other not in seen), None)
            if before is None:
                order.append(position)
                path.pop()
            else:
                seen.add(before)
                path.append((before, needs(before)))
    return order
