"""Put operations into kernels: values passed between members stay in registers.

    for i, j: t[i, j] = a[i, j] + b[i, j]              for x, r: t = a[x, r] + b[x, r]
    for i:    m[i] = max over j of t[i, j]      ->     for x:    m = max over r of t
    for i, j: y[i, j] = t[i, j] - m[i]                 for x, r: y[x, r] = t - m

Greedy, in program order: each operation is added to the kernel with which it shares most bytes, if
a rule of ``schedule/fusion/group.py`` binds its axes to the kernel's and no cycle arises.
"""

from collections.abc import Iterable

from aotpack.ir.kernels.kernel import Kernel, NotFused
from aotpack.ir.program import Operation, Program, concats_by_part, expand_concats, reads, targets
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import product
from aotpack.ir.uses import Uses
from aotpack.schedule.fusion.group import Group, join, start
from aotpack.schedule.fusion.naming import kernel_name
from aotpack.schedule.fusion.pressure import raises_pressure, single_reader_bytes
from aotpack.schedule.fusion.refusal import Refusal

MAX_MEMBERS = 64
MOST_REASONS = 8  # kept for an operation, by bytes shared


class Groups:
    """The kernels under construction, and which of them write and read a buffer."""

    def __init__(self, program: Program) -> None:
        self.members: list[Group] = []
        self.single_reader_bytes = single_reader_bytes(program)
        self.writer: dict[str, int] = {}
        self.not_fused: dict[int, list[NotFused]] = {}
        self._touching: dict[str, dict[int, None]] = {}

    def put(self, position: int, group: Group) -> None:
        """Append a group, or replace one."""
        self.members[position : position + 1] = [group]
        self.writer.update(dict.fromkeys(group.written, position))
        for name in (*group.written, *group.read):
            self._touching.setdefault(name, {})[position] = None

    def shared(self, names: Iterable[str]) -> dict[int, list[str]]:
        """For each group that touches some of these buffers, the buffers that it touches."""
        found: dict[int, list[str]] = {}
        for name in names:
            for position in self._touching.get(name, ()):
                found.setdefault(position, []).append(name)
        return found


def fuse(program: Program) -> tuple[Kernel, ...]:
    """Put operations into kernels; values passed between members stay in registers.

    Kernels come in the order of their first members.
    """
    groups = Groups(program)
    for operation in program.operations:
        position, group, not_fused = _best_group(operation, groups, program)
        groups.put(position, group)
        groups.not_fused.setdefault(position, []).extend(not_fused)
    positions = range(len(groups.members))
    members = zip(positions, groups.members, strict=True)
    uses = Uses.of((position, group.written, group.read) for position, group in members)
    return tuple(_kernel(position, groups, program, uses) for position in positions)


def _best_group(
    operation: Operation, groups: Groups, program: Program
) -> tuple[int, Group, list[NotFused]]:
    """The group that saves most memory traffic by taking ``operation``, and what it becomes.

    The score of a group is the typical bytes of the buffers that both touch. The list says why the
    operation is in no other group. If no group takes it, it starts a new one.
    """
    common = groups.shared(reads(operation)).items()
    scores = {p: sum(_bytes(name, program) for name in names) for p, names in common}
    best: tuple[int, Group] | None = None
    not_fused: list[NotFused] = []
    for position in sorted(scores, key=lambda p: (-scores[p], -p)):
        found: Group | Refusal = Refusal.EMPTY if scores[position] == 0 else Refusal.BETTER
        if found is Refusal.BETTER and best is None:
            found = _joined(operation, position, groups, program, scores[position])
        if isinstance(found, Group):
            best = position, found
        else:
            names = targets(operation)[0], groups.members[position].written[0]
            not_fused.append(NotFused(*names, found.value))
    return *(best or (len(groups.members), start(operation, program))), not_fused[:MOST_REASONS]


def _joined(
    operation: Operation, position: int, groups: Groups, program: Program, saved: int
) -> Group | Refusal:
    """The group with the operation added, which saves this many bytes, or the reason why not."""
    group = groups.members[position]
    if any(program.buffers[name].unfusable for name in (*targets(operation), *group.written)):
        return Refusal.UNFUSABLE
    if len(group.members) >= MAX_MEMBERS:
        return Refusal.FULL
    if _closes_cycle(operation, position, groups, program):
        return Refusal.CYCLE
    own = (name for name in reads(operation) if name not in group.written)
    if raises_pressure(own, group.read, groups.single_reader_bytes, saved):
        return Refusal.MEMORY
    return join(group, operation, program)


def _bytes(name: str, program: Program) -> int:
    buffer = program.buffers[name]
    return typical(product(buffer.shape)) * buffer.dtype.itemsize


def _closes_cycle(operation: Operation, position: int, groups: Groups, program: Program) -> bool:
    """True when an operand from elsewhere depends on the group that ``operation`` would join."""
    target = groups.members[position]
    needed = [name for name in reads(operation) if name not in target.written]
    pending = [*expand_concats(needed, program)]
    seen: set[int] = set()
    while pending:
        writer = groups.writer.get(pending.pop())
        if writer is None or writer in seen:
            continue
        if writer == position:
            return True
        seen.add(writer)
        pending += expand_concats(groups.members[writer].read, program)
    return False


def _kernel(position: int, groups: Groups, program: Program, uses: Uses[int]) -> Kernel:
    """Close a group: name it, and find the results that must be stored."""
    group = groups.members[position]
    results = {*program.results, *concats_by_part(program)}
    if group.is_closed:
        results.update(group.written)  # all of them are written, read or not
    stored = tuple(
        name
        for member in group.members
        for name in targets(member.operation)
        if name in results or uses.has_other_readers(name, position)
    )
    name, not_fused = kernel_name(group.members), tuple(groups.not_fused[position])
    return Kernel(name, group.axes, group.members, stored, group.read, not_fused=not_fused)
