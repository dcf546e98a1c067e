"""Which steps of a plan must follow which: reads and writes of the same memory, in plan order.

Memory is known by names. Intermediates that follow each other in the same bytes of the arena are
one memory: a step that writes there waits for whoever used what lay there before.

Rows S:T9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """The names a step reads, and those it writes or both reads and writes."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


class _Memory:
    """Who wrote a name last, and who has read it since; ``start`` to ``end`` are its bytes."""

    __slots__ = ("end", "start", "users")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.users: list[int] = []  # the writer is the first, where there is one


def dependences(
    accesses: Sequence[Access], places: Mapping[str, tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """For each step the earlier steps it must directly follow; what follows from these is left out.

    ``places`` gives the bytes, from and to, of names that may share theirs with others. Two of
    these never live at once, so only what is written can meet another name's users.
    """
    written: dict[str, _Memory] = {}
    read: dict[str, list[int]] = {}  # of names that no step has written
    held: dict[str, _Memory] = {}  # what lies in the arena
    behind: list[int] = []  # for each step all it follows, as bits
    found = []
    for step, (reads, writes) in enumerate(accesses):
        before: set[int] = set()
        for name in reads:
            if name in written:
                before.add(written[name].users[0])
        for name in writes:
            before.update(read.get(name, ()))
            if name in written:
                before.update(written[name].users)
            if name in places:
                before.update(_taken(held, *places[name]))
        direct, covered = _direct(before, behind)
        found.append(direct)
        behind.append(covered)
        for name in reads:
            (written[name].users if name in written else read.setdefault(name, [])).append(step)
        for name in writes:
            memory = written[name] = _Memory(*places.get(name, (0, 0)))
            memory.users.append(step)
            if name in places:
                held[name] = memory
    return tuple(found)


def _taken(held: dict[str, _Memory], start: int, end: int) -> list[int]:
    """The users of what lies in some of these bytes; what lies in no others is held no more."""
    met = [(name, one) for name, one in held.items() if one.start < end and start < one.end]
    for name, one in met:
        if start <= one.start and one.end <= end:
            del held[name]
    return [user for _, one in met for user in one.users]


def _direct(before: set[int], behind: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The steps of ``before`` that no other of them follows, and the bits of all that is behind."""
    direct, covered = [], 0
    for step in sorted(before, reverse=True):
        if not covered >> step & 1:
            direct.append(step)
            covered |= behind[step] | 1 << step
    return tuple(reversed(direct)), covered
