"""A topological order of kernels under construction, for cycle checks that look at few of them.

    a -> b -> c, and c joins a:  cycle          ranks a < b < c: only kernels between are searched

The ranks follow from the dependences; a new one moves only the kernels whose ranks it contradicts
(the incremental order of Pearce and Kelly).
"""

from collections.abc import Collection, Iterable


class GroupOrder:
    """The dependences between groups, by position; a group comes after those that it needs."""

    def __init__(self) -> None:
        self._rank: list[int] = []
        self._needs: list[set[int]] = []
        self._needed_by: list[set[int]] = []

    def append(self) -> None:
        """A new group, which none needs; it comes last."""
        self._rank.append(len(self._rank))
        self._needs.append(set())
        self._needed_by.append(set())

    def depends(self, positions: Iterable[int], on: int) -> bool:
        """True when one of the groups is ``on`` or needs it, directly or not."""
        return on in self._reached(positions, self._needs, lowest=self._rank[on])

    def add(self, position: int, needs: Collection[int]) -> None:
        """Let a group need others, none of which depends on it."""
        for other in needs:
            if other == position or other in self._needs[position]:
                continue
            if self._rank[other] > self._rank[position]:
                self._move(position, other)
            self._needs[position].add(other)
            self._needed_by[other].add(position)

    def merge(self, kept: int, gone: int) -> None:
        """Make one group of two, of which none waits for the other by way of a third."""
        needs, needed_by = self._needs[gone], self._needed_by[gone]
        self._needs[gone], self._needed_by[gone] = set(), set()
        for other in needs:
            self._needed_by[other].discard(gone)
        for other in needed_by:
            self._needs[other].discard(gone)
        self.add(kept, needs)
        for other in needed_by:
            self.add(other, [kept])

    def _move(self, position: int, other: int) -> None:
        """Put ``other`` and what it needs before ``position`` and what needs that."""
        low, high = self._rank[position], self._rank[other]
        before = self._reached([other], self._needs, lowest=low)
        after = self._reached([position], self._needed_by, highest=high)
        moved = [*sorted(before, key=self._rank.__getitem__)]
        moved += sorted(after, key=self._rank.__getitem__)
        ranks = sorted(self._rank[each] for each in moved)
        for each, rank in zip(moved, ranks, strict=True):
            self._rank[each] = rank

    def _reached(
        self,
        positions: Iterable[int],
        edges: list[set[int]],
        lowest: int = 0,
        highest: float = float("inf"),
    ) -> set[int]:
        """The groups reached over edges, those of ranks in between alone."""
        seen: set[int] = set()
        pending = list(positions)
        while pending:
            here = pending.pop()
            if here not in seen and lowest <= self._rank[here] <= highest:
                seen.add(here)
                pending += edges[here]
        return seen
