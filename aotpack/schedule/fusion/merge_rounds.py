"""Merge finished kernels that touch the same data, until nothing gains.

    kernel a: reads a; m = mean of a's rows                  kernel: reads a and b once;
    kernel b: reads b; n = mean of b's rows          ->          m, n, then y
    kernel c: reads a, b, m, n; y = (a - m) + (b - n)

The pass before puts an operation into one kernel, so what else it reads is made in others. Two
kernels become one if their operations, put together one by one, fit, and fewer bytes move. A merged
kernel is tried again with those that touch its data.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import Access, axes_in, member_accesses
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.kernels.traffic import access_bytes
from aotpack.ir.program import Operation, Program, reads, targets
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.fusion.group import Group, has_equal_loops, join, start
from aotpack.schedule.fusion.groups import Groups
from aotpack.schedule.fusion.pressure import raises_pressure

_Touch: TypeAlias = tuple[Access, int]

MOST_PARTNERS = 8  # kernels that are tried with one, by bytes that both touch
LEAST_GAIN = 16  # the gain is at least this part of the smaller kernel's bytes


class Rounds:
    """The groups of a program, and the merges that are tried."""

    def __init__(self, groups: Groups, program: Program, gpu: Gpu) -> None:
        self._groups, self._program, self._gpu = groups, program, gpu
        operations = enumerate(program.operations)
        self._place = {targets(one)[0]: number for number, one in operations}
        self._bytes: dict[int, int] = {}
        self._touched: dict[int, tuple[Member, list[_Touch]]] = {}

    def run(self) -> None:
        """Merge until no pair of groups gains."""
        pending = deque(range(len(self._groups.members)))
        while pending:
            here = pending.popleft()
            for other in self._partners(here):
                merged = self._merged(here, other)
                if merged is not None:
                    kept, gone = sorted((here, other))
                    self._groups.merge(kept, gone, merged)
                    self._bytes.pop(kept, None)
                    pending.append(kept)
                    break

    def _partners(self, here: int) -> list[int]:
        """The groups with the same loops that touch the same data, most bytes first."""
        group = self._groups.members[here]
        if group is None or not _is_open(group, self._program):
            return []
        scores: dict[int, int] = {}
        for other, names in self._groups.shared((*group.read, *group.written)).items():
            partner = self._groups.members[other]
            if other == here or partner is None or not _is_open(partner, self._program):
                continue
            if has_equal_loops(group, partner):
                scores[other] = sum(map(self._groups.typical_bytes, names))
        found = sorted(scores, key=lambda other: (-scores[other], other))
        return [other for other in found if scores[other] > 0][:MOST_PARTNERS]

    def _merged(self, here: int, other: int) -> Group | None:
        """The group of both, if they fit together and fewer bytes move."""
        one, two = (self._groups.group(position) for position in (here, other))
        saved = min(self._bytes_of(here), self._bytes_of(other))
        if self._groups.is_too_large(here, other) or self._groups.waits_between(here, other):
            return None
        if raises_pressure(one.read, two.read, self._groups.single_reader_bytes, saved):
            return None
        for merged in self._together(one, two):
            if merged is None or self._is_too_wide(merged):
                continue
            gain = self._bytes_of(here) + self._bytes_of(other)
            gain -= self._moved(merged, (here, other))
            if gain * LEAST_GAIN >= saved > 0:
                return merged
        return None

    def _together(self, one: Group, two: Group) -> Iterator[Group | None]:
        """Both groups in one: in the program's order, then the rows first."""
        one, two = sorted((one, two), key=lambda group: (group.is_flat, -len(group.members)))
        first = min(map(self._place_of, two.members))
        kept = list(takewhile(lambda member: self._place_of(member) < first, one.members))
        rest = sorted((*one.members[len(kept) :], *two.members), key=self._place_of)
        later = [member.operation for member in rest]
        if kept:
            yield _joined(_with_members(one, kept), later, self._program)
        else:
            yield _joined(start(later[0]), later[1:], self._program)
        if set(one.read).isdisjoint(two.written):
            yield _joined(one, [member.operation for member in two.members], self._program)

    def _place_of(self, member: Member) -> int:
        return self._place[targets(member.operation)[0]]

    def _bytes_of(self, position: int) -> int:
        if position not in self._bytes:
            group = self._groups.group(position)
            self._bytes[position] = self._moved(group, (position,))
        return self._bytes[position]

    def _moved(self, group: Group, positions: tuple[int, ...]) -> int:
        """The bytes that a group in place of some moves, at typical sizes."""
        stored, inside = {*self._groups.stored(group, positions)}, {*group.written}
        moved: dict[tuple[str, tuple[Int, ...], bool], int] = {}
        for access, size in self._touches(group):
            if access.buffer in stored if access.is_store else access.buffer not in inside:
                moved[access.buffer, access.index, access.is_store] = size
        return sum(moved.values())

    def _is_too_wide(self, group: Group) -> bool:
        """True when the registers of a program could not hold its rows of all tensors."""
        if group.is_flat:
            return False
        row, read = group.axes[1], {*group.read}
        touched = (access for access, _ in self._touches(group) if access.buffer in read)
        along = {access.buffer for access in touched if row in axes_in(access.index)}
        return len(along) > 1 and typical(row.extent) * len(along) > self._gpu.longest_row

    def _touches(self, group: Group) -> Iterator[_Touch]:
        """The accesses of members, with their typical bytes; a member is looked at once."""
        for member in group.members:
            known = self._touched.get(id(member))
            if known is None:
                found = list(member_accesses(member))
                sizes = [(one, typical(access_bytes(one, self._program))) for one in found]
                known = self._touched[id(member)] = member, sizes
            yield from known[1]


def _is_open(group: Group, program: Program) -> bool:
    """True for a group of loops that others may join."""
    if group.is_template or group.is_closed:
        return False
    return not any(program.buffers[name].unfusable for name in group.written)


def _with_members(group: Group, members: list[Member]) -> Group:
    """The group as it was with its first members."""
    written = tuple(name for member in members for name in targets(member.operation))
    read = dict.fromkeys(name for member in members for name in reads(member.operation))
    outside = tuple(name for name in read if name not in written)
    return replace(group, members=tuple(members), written=written, read=outside)


def _joined(group: Group, operations: list[Operation], program: Program) -> Group | None:
    """The group that takes these operations one by one; None if one does not fit."""
    for operation in operations:
        joined = join(group, operation, program, is_last=True)
        if not isinstance(joined, Group):
            return None
        group = joined
    return group
