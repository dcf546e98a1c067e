"""Put operations into kernels: values passed between members stay in registers.

    for i, j: t[i, j] = a[i, j] + b[i, j]              for x, r: t = a[x, r] + b[x, r]
    for i:    m[i] = max over j of t[i, j]      ->     for x:    m = max over r of t
    for i, j: y[i, j] = t[i, j] - m[i]                 for x, r: y[x, r] = t - m

Greedy, in program order: each operation is added to the kernel with which it shares most bytes, if
a rule of ``schedule/fusion/group.py`` binds its axes to the kernel's and no cycle arises. Then
``merge_rounds.py`` merges finished kernels.
"""

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.kernel import Kernel, NotFused
from aotpack.ir.program import Operation, Program, reads, targets
from aotpack.schedule.fusion.group import Group, always_starts, join, start
from aotpack.schedule.fusion.groups import Groups
from aotpack.schedule.fusion.merge_rounds import Rounds
from aotpack.schedule.fusion.naming import kernel_name
from aotpack.schedule.fusion.paired_products import with_second_product, with_statistic
from aotpack.schedule.fusion.pressure import raises_pressure
from aotpack.schedule.fusion.refusal import Refusal

MOST_REASONS = 8  # kept for an operation, by bytes shared


def fuse(
    program: Program, gpu: Gpu = H200, is_host: bool = False, partition: object = None
) -> tuple[Kernel, ...]:
    """Put operations into kernels; values passed between members stay in registers.

    Kernels come in the order of their first members. At the end kernels that touch the same data
    are merged. Pairs of products are for GPUs alone, so not for a ``partition`` of all targets.
    """
    groups = Groups(program, takes_pairs=not is_host and partition is None)
    for operation in program.operations:
        position, group, not_fused = _best_group(operation, groups, program)
        groups.put(position, group, operation)
        groups.not_fused.setdefault(position, []).extend(not_fused)
    Rounds(groups, program, gpu).run()
    found = enumerate(groups.members)
    return tuple(_kernel(position, group, groups) for position, group in found if group is not None)


def _best_group(
    operation: Operation, groups: Groups, program: Program
) -> tuple[int, Group, list[NotFused]]:
    """The group that saves most memory traffic by taking ``operation``, and what it becomes.

    The score of a group is the typical bytes of the buffers that both touch. The list says why the
    operation is in no other group. If no group takes it, it starts a new one.
    """
    common = groups.shared(reads(operation)).items()
    sizes = {name: groups.typical_bytes(name) for name in reads(operation)}
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
            names = targets(operation)[0], groups.group(position).written[0]
            not_fused.append(NotFused(*names, found.value))
    return *(best or (len(groups.members), start(operation))), not_fused[:MOST_REASONS]


def _joined(
    operation: Operation, position: int, groups: Groups, program: Program, saved: int
) -> Group | Refusal:
    """The group with the operation added, which saves this many bytes, or the reason why not."""
    group = groups.group(position)
    if any(program.buffers[name].unfusable for name in (*targets(operation), *group.written)):
        return Refusal.UNFUSABLE
    if groups.is_full(position, operation):
        return Refusal.FULL
    own = [name for name in reads(operation) if name not in group.written]
    if groups.order.depends(groups.writers(own), position):
        return Refusal.CYCLE
    if raises_pressure(own, group.read, groups.single_reader_bytes, saved):
        return Refusal.MEMORY
    if groups.takes_pairs:
        for with_other in (with_second_product, with_statistic):
            pair = with_other(group, operation, program)
            if pair is not None:
                return pair
    return join(group, operation, program)


def _kernel(position: int, group: Group, groups: Groups) -> Kernel:
    """Close a group: name it, and find the results that must be stored."""
    name, stored = kernel_name(group.members), groups.stored(group, (position,))
    reasons = (why for why in groups.not_fused[position] if why.other not in group.written)
    return Kernel(name, group.axes, group.members, stored, group.read, not_fused=tuple(reasons))
