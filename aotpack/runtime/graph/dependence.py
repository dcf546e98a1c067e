"""Dependences between the steps of a plan: reads and writes of the same memory, in plan order.

Tensors are identified by their cells. Intermediates may reuse the same bytes of the arena: a step
that writes there depends on the users of the tensor that was there before.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """The tensors a step only reads, and those it writes."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


class _Storage:
    """The last writer of a tensor and its readers since; ``start`` to ``end`` are its bytes."""

    __slots__ = ("end", "start", "users")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.users: list[int] = []  # the writer first, if there is one


def dependences(
    accesses: Sequence[Access], places: Mapping[int, tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """The direct predecessors of each step: the transitive reduction of its dependences.

    ``places`` gives the byte ranges of tensors that may share memory. Two of them that share it are
    never live at once, so only a write can conflict with the users of another.
    """
    written: dict[int, _Storage] = {}
    read: dict[int, list[int]] = {}  # of tensors that no step has written
    live: dict[int, _Storage] = {}  # tensors in the arena
    ancestors: list[int] = []  # all predecessors of each step, as a bit set
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
                before.update(_overwritten(live, *places[cell]))
        direct, covered = _direct_predecessors(before, ancestors)
        found.append(direct)
        ancestors.append(covered)
        for cell in reads:
            (written[cell].users if cell in written else read.setdefault(cell, [])).append(step)
        for cell in writes:
            memory = written[cell] = _Storage(*places.get(cell, (0, 0)))
            memory.users.append(step)
            if cell in places:
                live[cell] = memory
    return tuple(found)


def _overwritten(live: dict[int, _Storage], start: int, end: int) -> list[int]:
    """The users of tensors that overlap a range; tensors inside it stop being live."""
    met = [(cell, one) for cell, one in live.items() if one.start < end and start < one.end]
    for cell, one in met:
        if start <= one.start and one.end <= end:
            del live[cell]
    return [user for _, one in met for user in one.users]


def _direct_predecessors(before: set[int], ancestors: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The steps of ``before`` that no other of them follows, and the bit set of all ancestors."""
    direct, covered = [], 0
    for step in sorted(before, reverse=True):
        if not covered >> step & 1:
            direct.append(step)
            covered |= ancestors[step] | 1 << step
    return tuple(reversed(direct)), covered
