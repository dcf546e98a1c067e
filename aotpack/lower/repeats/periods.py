"""Stretches of a list in which one piece follows itself several times."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``start`` on, ``count`` equal pieces of ``period`` entries, then ``slack`` of another.

    So the pieces may also begin at each of the ``slack`` places behind ``start``.
    """

    start: int
    period: int
    count: int
    slack: int

    @property
    def saved(self) -> int:
        """The entries of all pieces but one."""
        return (self.count - 1) * self.period


def stretches(keys: Sequence[Hashable], shortest: int) -> list[Stretch]:
    """All stretches of pieces with ``shortest`` entries or more, those that save most first."""
    numbers: dict[Hashable, int] = {}
    row = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    found = [
        Stretch(start, period, length // period + 1, length % period)
        for period in range(shortest, len(keys) // 2 + 1)
        for start, length in _runs(row[:-period] == row[period:], period)
    ]
    return sorted(found, key=lambda one: (-one.saved, one.period, one.start))


def _runs(
    equal: "np.ndarray[tuple[int], np.dtype[np.bool_]]", least: int
) -> Iterator[tuple[int, int]]:
    """The start and length of each run of at least ``least`` true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False]))))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= least:
            yield start, end - start
