"""Which steps of a plan must follow which: reads and writes of the same memory, in plan order.

Memory is known by names. Names whose bytes overlap, as those of intermediates that follow each
other in the arena, are one memory: a step that writes waits for whoever read what lay there before.

Rows S:T9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """The names a step reads, and those it writes or both reads and writes."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


class _Users:
    """Who wrote a name last, and who has read it since."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: int | None = None
        self.readers: list[int] = []

    def all(self) -> list[int]:
        return self.readers if self.writer is None else [*self.readers, self.writer]


def dependences(
    accesses: Sequence[Access], overlapping: Mapping[str, Sequence[str]]
) -> tuple[tuple[int, ...], ...]:
    """For each step the earlier steps it must directly follow; what follows from these is left out.

    ``overlapping`` gives for a name the others in its bytes. Two of them never live at once, so
    only what is written can meet another name's users.
    """
    users: dict[str, _Users] = {}
    behind: list[int] = []  # for each step all it follows, as bits
    found = []
    for step, (reads, writes) in enumerate(accesses):
        before: set[int] = set()
        for name in writes:
            for other in (name, *overlapping.get(name, ())):
                if other in users:
                    before.update(users[other].all())
        for name in reads:
            if name in users and users[name].writer is not None:
                before.add(users[name].writer)  # type: ignore[arg-type]
        direct, covered = _direct(before, behind)
        found.append(direct)
        behind.append(covered)
        for name in reads:
            users.setdefault(name, _Users()).readers.append(step)
        for name in writes:
            own = users[name] = _Users()
            own.writer = step
    return tuple(found)


def _direct(before: set[int], behind: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The steps of ``before`` that no other of them follows, and the bits of all that is behind."""
    direct, covered = [], 0
    for step in sorted(before, reverse=True):
        if not covered >> step & 1:
            direct.append(step)
            covered |= behind[step] | 1 << step
    return tuple(reversed(direct)), covered
