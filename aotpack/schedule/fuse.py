"""Put operations into kernels: a kernel keeps the values its members pass on in registers.

    for i, j: t[i, j] = a[i, j] + b[i, j]              for x, r: t = a[x, r] + b[x, r]
    for i:    m[i] = max over j of t[i, j]      ->     for x:    m = max over r of t
    for i, j: y[i, j] = t[i, j] - m[i]                 for x, r: y[x, r] = t - m

Greedy, in program order: each operation joins the kernel with which it shares most bytes, if some
rule of ``schedule/group.py`` binds its axes to the kernel's and no cycle arises (S:M, C:B1-B8).
"""

from aotpack.ir.facts import typical
from aotpack.ir.integers import product
from aotpack.ir.nodes import Operation, Program, reads, targets
from aotpack.ir.schedule import Kernel
from aotpack.schedule.group import Group, join, start
from aotpack.schedule.naming import kernel_name

MAX_MEMBERS = 64


def fuse(program: Program) -> tuple[Kernel, ...]:
    """One kernel for each group of operations, in the order their first members appear."""
    groups: list[Group] = []
    for operation in program.operations:
        found = _best_group(operation, groups, program)
        if found is None:
            groups.append(start(operation, program))
        else:
            position, joined = found
            groups[position] = joined
    return tuple(_kernel(group, program, groups) for group in groups)


def _best_group(
    operation: Operation, groups: list[Group], program: Program
) -> tuple[int, Group] | None:
    """The group that saves most memory traffic by taking ``operation``, and what it becomes."""
    scored = [(_shared_bytes(operation, group, program), p) for p, group in enumerate(groups)]
    for score, position in sorted(scored, key=lambda item: (-item[0], -item[1])):
        group = groups[position]
        if score == 0:
            return None
        if len(group.members) >= MAX_MEMBERS or _closes_cycle(operation, position, groups):
            continue
        joined = join(group, operation, program)
        if joined is not None:
            return position, joined
    return None


def _shared_bytes(operation: Operation, group: Group, program: Program) -> int:
    """Typical bytes of the buffers both touch: reads of what the group writes, and common reads."""
    mine = set(reads(operation))
    common = [name for name in mine if name in group.written or name in group.read]
    return sum(_bytes(name, program) for name in sorted(common))


def _bytes(name: str, program: Program) -> int:
    buffer = program.buffers[name]
    return typical(product(buffer.shape)) * buffer.dtype.itemsize


def _closes_cycle(operation: Operation, position: int, groups: list[Group]) -> bool:
    """True when something ``operation`` needs from elsewhere depends on the group it would join."""
    target = groups[position]
    pending = [name for name in reads(operation) if name not in target.written]
    writers = {name: group for group in groups for name in group.written}
    seen: set[int] = set()
    while pending:
        group = writers.get(pending.pop())
        if group is None or group.number in seen:
            continue
        if group is target:
            return True
        seen.add(group.number)
        pending += group.read
    return False


def _kernel(group: Group, program: Program, groups: list[Group]) -> Kernel:
    """Close a group: name it and find which of its results anyone outside reads."""
    outside = {name for other in groups if other is not group for name in other.read}
    outside |= set(program.results)
    stored = tuple(
        name for member in group.members for name in targets(member.operation) if name in outside
    )
    return Kernel(kernel_name(group.members), group.axes, group.members, stored, group.read)
