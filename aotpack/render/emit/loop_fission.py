"""Loop fission: members of one loop that read nothing in common get separate loops.

One loop would keep the accumulators and loads of all alive at once, and read no element less.
"""

from collections.abc import Mapping

from aotpack.ir.kernels.kernel import Kernel, Member, member_uses
from aotpack.ir.operations import Reduction
from aotpack.ir.program import loads
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis


def fission_groups(
    walk: list[Member], kernel: Kernel, inner: frozenset[Axis]
) -> list[list[Member]]:
    """The members in groups, in order; those that read nothing along the row are in the first."""
    producers = member_uses(kernel).producers
    groups: list[tuple[set[str], list[Member]]] = []
    for member in walk:
        read = _streams(member, producers, inner)
        meeting = [group for group in groups if not read or not group[0] or group[0] & read]
        names = read.union(*(names for names, _ in meeting))
        together = [m for _, members in meeting for m in members]
        place = groups.index(meeting[0]) if meeting else len(groups)
        groups = [group for group in groups if group not in meeting]
        groups.insert(place, (names, [*together, member]))
    return [[m for m in walk if m in members] for _, members in groups]


def _streams(member: Member, producers: Mapping[str, Member], inner: frozenset[Axis]) -> set[str]:
    """The buffers that a member and its recomputed producers read along the row."""
    found: set[str] = set()
    seen: set[str] = set()
    pending = [member]
    while pending:
        here = pending.pop()
        moved = Rewriter(dict(here.binding))
        for load in loads(here.operation):
            producer = producers.get(load.buffer)
            if producer is not None and not isinstance(producer.operation, Reduction):
                pending += [producer] if load.buffer not in seen else []
                seen.add(load.buffer)
            elif producer is None and any(
                inner.intersection(moved.index(part).leaves()) for part in load.index
            ):
                found.add(load.buffer)
    return found
