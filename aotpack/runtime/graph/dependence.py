"""Dependences between the steps of a plan: reads and writes of the same memory, in plan order.

Tensors are known by their cells. Intermediates that follow each other in the same bytes of the
arena are one memory: a step that writes there waits for whoever used what lay there before.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """The tensors a step reads, and those it writes or both reads and writes."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


class _Memory:
    """Who wrote a tensor last, and who has read it since; ``start`` to ``end`` are its bytes."""

    __slots__ = ("end", "start", "users")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.users: list[int] = []  # the writer is the first, where there is one


def dependences(
    accesses: Sequence[Access], places: Mapping[int, tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """For each step the earlier steps it must directly follow; what follows from these is left out.

    ``places`` gives the bytes, from and to, of tensors that may share theirs with others. Two of
    these never live at once, so only what is written can meet another's users.
    """
    written: dict[int, _Memory] = {}
    read: dict[int, list[int]] = {}  # of tensors that no step has written
    held: dict[int, _Memory] = {}  # what lies in the arena
    behind: list[int] = []  # for each step all it follows, as bits
    found = []
    for step, (reads, writes) in enumerate(accesses):
        before: set[int] = set()
        for cell in reads:
            if cell in written:
                before.add(written[cell].users[0])
        for cell in writes:
            before.update(read.get(cell, ()))
            if cell in written:
                before.update(written[cell].users)
            if cell in places:
                before.update(_taken(held, *places[cell]))
        direct, covered = _direct(before, behind)
        found.append(direct)
        behind.append(covered)
        for cell in reads:
            (written[cell].users if cell in written else read.setdefault(cell, [])).append(step)
        for cell in writes:
            memory = written[cell] = _Memory(*places.get(cell, (0, 0)))
            memory.users.append(step)
            if cell in places:
                held[cell] = memory
    return tuple(found)


def _taken(held: dict[int, _Memory], start: int, end: int) -> list[int]:
    """The users of what lies in some of these bytes; what lies in no others is held no more."""
    met = [(cell, one) for cell, one in held.items() if one.start < end and start < one.end]
    for cell, one in met:
        if start <= one.start and one.end <= end:
            del held[cell]
    return [user for _, one in met for user in one.users]


def _direct(before: set[int], behind: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The steps of ``before`` that no other of them follows, and the bits of all that is behind."""
    direct, covered = [], 0
    for step in sorted(before, reverse=True):
        if not covered >> step & 1:
            direct.append(step)
            covered |= behind[step] | 1 << step
    return tuple(reversed(direct)), covered
