"""All kernels under construction: which of them write and read a buffer, and who waits for whom."""

from collections.abc import Collection, Iterable
from itertools import islice

from aotpack.ir.kernels.kernel import NotFused
from aotpack.ir.program import Operation, Program, concats_by_part, reads, targets
from aotpack.ir.uses import operator_count
from aotpack.schedule.fusion.group import Group
from aotpack.schedule.fusion.group_order import GroupOrder
from aotpack.schedule.fusion.pressure import single_reader_bytes
from aotpack.schedule.layout import typical_bytes

MAX_MEMBERS = 64
MAX_KERNEL_OPERATORS = 4096  # a bound on the time to compile; a selection of topk takes 3000
MAX_BUFFERS = 250  # likewise: parameters of a kernel
MOST_TRIED = 64  # groups that touch a buffer, the latest ones: a weight may be read everywhere


class Groups:
    """The kernels under construction, by position; None in place of one that was merged."""

    def __init__(self, program: Program, *, takes_pairs: bool = False) -> None:
        self.takes_pairs = takes_pairs
        self.members: list[Group | None] = []
        self.order = GroupOrder()
        self.single_reader_bytes = single_reader_bytes(program)
        self.results = frozenset((*program.results, *concats_by_part(program)))
        self.not_fused: dict[int, list[NotFused]] = {}
        self._program = program
        self._operators: list[int] = []
        self._parts = {concat.name: concat.parts for concat in program.concats}
        self._writer: dict[str, int] = {}
        self._touching: dict[str, dict[int, None]] = {}

    def group(self, position: int) -> Group:
        """The group at a position, which was not merged."""
        found = self.members[position]
        assert found is not None
        return found

    def put(self, position: int, group: Group, operation: Operation) -> None:
        """Append a group of one operation, or replace a group by itself with the operation."""
        if position == len(self.members):
            self.members.append(group)
            self._operators.append(0)
            self.order.append()
        self.members[position] = group
        self._operators[position] += operator_count(operation)
        self.order.add(position, self.writers(reads(operation)))
        self._writer.update(dict.fromkeys(targets(operation), position))
        self._touch(position, (*targets(operation), *reads(operation)))

    def merge(self, kept: int, gone: int, merged: Group) -> None:
        """Put a group in place of two."""
        group = self.group(gone)
        self.members[kept], self.members[gone] = merged, None
        self._operators[kept] += self._operators[gone]
        self.order.merge(kept, gone)
        self.not_fused.setdefault(kept, []).extend(self.not_fused.pop(gone, ()))
        self._writer.update(dict.fromkeys(group.written, kept))
        for name in (*group.written, *group.read):
            self._touching[name].pop(gone, None)
        self._touch(kept, (*group.written, *group.read))

    def _touch(self, position: int, names: Iterable[str]) -> None:
        for name in names:
            touching = self._touching.setdefault(name, {})
            touching.pop(position, None)  # the latest come last
            touching[position] = None

    def writers(self, names: Iterable[str]) -> list[int]:
        """The groups that write some of these buffers."""
        sources = (source for name in names for source in self._parts.get(name, (name,)))
        return [self._writer[source] for source in sources if source in self._writer]

    def shared(self, names: Iterable[str]) -> dict[int, list[str]]:
        """For each group that touches some of these buffers, the buffers that it touches."""
        found: dict[int, list[str]] = {}
        for name in names:
            touching = dict.fromkeys(islice(reversed(self._touching.get(name, {})), MOST_TRIED))
            if name in self._writer:
                touching[self._writer[name]] = None
            for position in touching:
                found.setdefault(position, []).append(name)
        return found

    def waits_between(self, one: int, other: int) -> bool:
        """True when one of two groups waits for the other by way of a third."""
        return any(
            self.order.depends(
                [n for n in self.writers(self.group(later).read) if n not in (one, other)], earlier
            )
            for earlier, later in ((one, other), (other, one))
        )

    def is_full(self, position: int, operation: Operation) -> bool:
        """True when a group with the operation would take a compiler too long."""
        group = self.group(position)
        touched = {*group.written, *group.read, *targets(operation), *reads(operation)}
        operators = self._operators[position] + operator_count(operation)
        return compiles_too_long(len(group.members) + 1, operators, touched)

    def is_too_large(self, one: int, other: int) -> bool:
        """The same for two groups together."""
        a, b = self.group(one), self.group(other)
        touched = {*a.written, *a.read, *b.written, *b.read}
        operators = self._operators[one] + self._operators[other]
        return compiles_too_long(len(a.members) + len(b.members), operators, touched)

    def stored(self, group: Group, positions: Collection[int]) -> tuple[str, ...]:
        """What the group in place of those at ``positions`` stores: results, what others read."""
        return tuple(
            name
            for member in group.members
            for name in targets(member.operation)
            if group.is_closed
            or name in self.results
            or any(reader not in positions for reader in self._touching[name])
        )

    def typical_bytes(self, name: str) -> int:
        """The bytes of a buffer at typical sizes."""
        return typical_bytes(self._program.buffers[name])


def compiles_too_long(members: int, operators: int, buffers: Collection[str]) -> bool:
    """True for a kernel of so many members and operators that touches these buffers."""
    return members > MAX_MEMBERS or operators > MAX_KERNEL_OPERATORS or len(buffers) > MAX_BUFFERS
