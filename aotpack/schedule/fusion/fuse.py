"""Put operations into kernels: values passed between members stay in registers.

    for i, j: t[i, j] = a[i, j] + b[i, j]              for x, r: t = a[x, r] + b[x, r]
    for i:    m[i] = max over j of t[i, j]      ->     for x:    m = max over r of t
    for i, j: y[i, j] = t[i, j] - m[i]                 for x, r: y[x, r] = t - m

Greedy, in program order: each operation is added to the kernel with which it shares most bytes, if
a rule of ``schedule/fusion/group.py`` binds its axes to the kernel's and no cycle arises.
"""

from collections.abc import Iterable
from itertools import islice

from aotpack.ir.kernels.kernel import Kernel, NotFused
from aotpack.ir.program import (
    Operation,
    Program,
    concats_by_part,
    reads,
    targets,
)
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import product
from aotpack.ir.uses import Uses, operator_count
from aotpack.schedule.fusion.group import Group, always_starts, join, start
from aotpack.schedule.fusion.group_order import GroupOrder
from aotpack.schedule.fusion.naming import kernel_name
from aotpack.schedule.fusion.pressure import raises_pressure, single_reader_bytes
from aotpack.schedule.fusion.refusal import Refusal

MAX_MEMBERS = 64
MAX_KERNEL_OPERATORS = 4096  # a bound on the time to compile; a selection of topk takes 3000
MAX_BUFFERS = 250  # likewise: parameters of a kernel
MOST_REASONS = 8  # kept for an operation, by bytes shared
MOST_TRIED = 64  # groups that touch a buffer, the latest ones: a weight may be read everywhere


class Groups:
    """The kernels under construction, and which of them write and read a buffer."""

    def __init__(self, program: Program) -> None:
        self.members: list[Group] = []
        self.operators: list[int] = []
        self.order = GroupOrder()
        self.single_reader_bytes = single_reader_bytes(program)
        self.not_fused: dict[int, list[NotFused]] = {}
        self._parts = {concat.name: concat.parts for concat in program.concats}
        self._writer: dict[str, int] = {}
        self._touching: dict[str, dict[int, None]] = {}

    def put(self, position: int, group: Group, operation: Operation) -> None:
        """Append a group of one operation, or replace a group by itself with the operation."""
        if position == len(self.members):
            self.members.append(group)
            self.operators.append(0)
            self.order.append()
        self.members[position] = group
        self.operators[position] += operator_count(operation)
        self.order.add(position, self.writers(reads(operation)))
        self._writer.update(dict.fromkeys(targets(operation), position))
        for name in (*targets(operation), *reads(operation)):
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


def fuse(program: Program) -> tuple[Kernel, ...]:
    """Put operations into kernels; values passed between members stay in registers.

    Kernels come in the order of their first members.
    """
    groups = Groups(program)
    for operation in program.operations:
        position, group, not_fused = _best_group(operation, groups, program)
        groups.put(position, group, operation)
        groups.not_fused.setdefault(position, []).extend(not_fused)
    positions = range(len(groups.members))
    members = zip(positions, groups.members, strict=True)
    uses = Uses.of((position, group.written, group.read) for position, group in members)
    results = frozenset((*program.results, *concats_by_part(program)))
    return tuple(_kernel(position, groups, results, uses) for position in positions)


def _best_group(
    operation: Operation, groups: Groups, program: Program
) -> tuple[int, Group, list[NotFused]]:
    """The group that saves most memory traffic by taking ``operation``, and what it becomes.

    The score of a group is the typical bytes of the buffers that both touch. The list says why the
    operation is in no other group. If no group takes it, it starts a new one.
    """
    common = groups.shared(reads(operation)).items()
    sizes = {name: _bytes(name, program) for name in reads(operation)}
    scores = {p: sum(map(sizes.__getitem__, names)) for p, names in common}
    best: tuple[int, Group] | None = None
    not_fused: list[NotFused] = []
    for position in sorted(scores, key=lambda p: (-scores[p], -p)):
        if len(not_fused) >= MOST_REASONS and (best or always_starts(operation)):
            break
        found: Group | Refusal = Refusal.EMPTY if scores[position] == 0 else Refusal.BETTER
        if found is Refusal.BETTER and best is None:
            found = _joined(operation, position, groups, program, scores[position])
        if isinstance(found, Group):
            best = position, found
        else:
            names = targets(operation)[0], groups.members[position].written[0]
            not_fused.append(NotFused(*names, found.value))
    return *(best or (len(groups.members), start(operation))), not_fused[:MOST_REASONS]


def _joined(
    operation: Operation, position: int, groups: Groups, program: Program, saved: int
) -> Group | Refusal:
    """The group with the operation added, which saves this many bytes, or the reason why not."""
    group = groups.members[position]
    if any(program.buffers[name].unfusable for name in (*targets(operation), *group.written)):
        return Refusal.UNFUSABLE
    if _is_full(operation, position, groups):
        return Refusal.FULL
    own = [name for name in reads(operation) if name not in group.written]
    if groups.order.depends(groups.writers(own), position):
        return Refusal.CYCLE
    if raises_pressure(own, group.read, groups.single_reader_bytes, saved):
        return Refusal.MEMORY
    return join(group, operation, program)


def _bytes(name: str, program: Program) -> int:
    buffer = program.buffers[name]
    return typical(product(buffer.shape)) * buffer.dtype.itemsize


def _is_full(operation: Operation, position: int, groups: Groups) -> bool:
    """True when a group with the operation would take a compiler too long."""
    group = groups.members[position]
    operators = groups.operators[position] + operator_count(operation)
    buffers = {*group.written, *group.read, *targets(operation), *reads(operation)}
    return (
        len(group.members) >= MAX_MEMBERS
        or operators > MAX_KERNEL_OPERATORS
        or len(buffers) > MAX_BUFFERS
    )


def _kernel(position: int, groups: Groups, results: frozenset[str], uses: Uses[int]) -> Kernel:
    """Close a group: name it, and find the results that must be stored."""
    group = groups.members[position]
    if group.is_closed:
        results = results.union(group.written)  # all of them are written, read or not
    stored = tuple(
        name
        for member in group.members
        for name in targets(member.operation)
        if name in results or uses.has_other_readers(name, position)
    )
    name, not_fused = kernel_name(group.members), tuple(groups.not_fused[position])
    return Kernel(name, group.axes, group.members, stored, group.read, not_fused=not_fused)
