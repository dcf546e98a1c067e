"""Rows in blocks: a loop for each level of reductions, each of which reads the row again.

A later loop recomputes the pointwise members and scans that it needs.
"""

from collections.abc import Mapping

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Pointwise, Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Operation, loads, reads, targets
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.uses import operation_uses
from aotpack.render.emit.loop_fission import fission_groups
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.reduction_loops import Blocks, ReductionLoop, stretches
from aotpack.render.triton.loops.row_end import ended_early
from aotpack.render.triton.loops.walk import RowWalk, define_reduction, store_member


class LoopedRow(RowWalk):
    """Loops over the blocks of a row, or of a program's part of it."""

    persistent = False

    def shaped(self, kernel: Kernel) -> Kernel:
        """Rows up to where they have elements."""
        is_one = self.tile.x == 1 and not self.partition.is_part
        return ended_early(kernel) if is_one else kernel

    def axes(self, kernel: Kernel) -> tuple[Axis, ...]:
        """Rows; axes along them have a value in loops alone."""
        return kernel.axes[:1]

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The loops, with blocks from memory."""
        self.partition.open(builder)
        self.emit_loops(builder, Blocks(self.tile))

    def emit_loops(self, builder: LoopBuilder, blocks: Blocks) -> None:
        """The loops of each level, after the members that are outside of them."""
        kernel = builder.kernel
        level = _levels(kernel)
        walks: list[list[Member]] = []
        for number in range(max(level.values()) + 1):
            here = [m for m in kernel.members if level[targets(m.operation)[0]] == number]
            walks.append([m for m in here if not m.outer and _works(m, kernel)])
        producers = operation_uses(member.operation for member in kernel.members).producers
        walked = [_buffers(walk, producers) for walk in walks]
        in_order = any(isinstance(member.operation, Scan) for member in kernel.members)
        once = len(list(filter(None, walks))) < 2
        resident: dict[object, str] | None = (
            None if in_order or once or not blocks.in_memory else {}
        )
        inner = frozenset(kernel.axes[1:])
        loops = [fission_groups(walk, kernel, inner) for walk in walks]
        order = [group for groups in loops for group in groups]
        for number, groups in enumerate(loops):
            for member in kernel.members:
                if member.outer and level[targets(member.operation)[0]] == number:
                    self.emit_member(builder, member)
            cache = _cache(number, walked, kernel) if blocks.in_memory else {}
            for group in groups:
                is_first, is_last = group is order[0], group is order[-1]
                loop = ReductionLoop(builder, blocks, resident, is_first=is_first, is_last=is_last)
                _emit_walk(group, builder, loop, cache)


def _emit_walk(
    working: list[Member], builder: LoopBuilder, loop: ReductionLoop, cache: Mapping[str, str]
) -> None:
    """One walk over the inner axis: stores and accumulations; then the reductions' results."""
    parts = stretches(loop.length, loop.tile.r, keep_last=loop.resident is not None)
    if loop.resident and not any(map(_gives_first, working)):
        parts = parts[::-1]  # first the block in registers
    for stretch in parts:
        with loop.over(stretch, cache):
            for member in _with_scans(working, builder.kernel):
                if isinstance(member.operation, Reduction):
                    loop.accumulate(member)
                    continue
                if isinstance(member.operation, Scan):
                    builder.define(member, loop.scan(member))
                if member in working:
                    store_member(builder, member)
    with builder.emitter.at(builder.emitter.region, cache=cache):
        for member, names in loop.finish():
            assert isinstance(member.operation, Reduction)
            define_reduction(builder, member, member.operation, names)
            store_member(builder, member)


def _cache(number: int, walked: list[set[str]], kernel: Kernel) -> dict[str, str]:
    """What of a walk caches may evict first, and what later walks read again."""
    before, after = set().union(*walked[:number]), set().union(*walked[number + 1 :])
    return {
        **dict.fromkeys(kernel.stored if before else (), "first"),
        **dict.fromkeys(sorted(walked[number] & before), "first"),
        **dict.fromkeys(sorted(walked[number] & after), "last"),
    }


def _works(member: Member, kernel: Kernel) -> bool:
    """True for a member that a walk is made for; others are computed at their uses."""
    stored = set(targets(member.operation)) & set(kernel.stored)
    return isinstance(member.operation, Reduction) or bool(stored)


def _buffers(walk: list[Member], producers: Mapping[str, Operation]) -> set[str]:
    """What a walk reads from memory, itself and to compute pointwise members and scans again."""
    found: set[str] = set()
    pending = [name for member in walk for name in reads(member.operation)]
    while pending:
        name = pending.pop()
        producer = producers.get(name)
        if producer is None:
            found.add(name)
        elif not isinstance(producer, Reduction):
            pending += reads(producer)
    return found


def _gives_first(member: Member) -> bool:
    """True for a reduction that must meet a row's elements in order."""
    operation = member.operation
    return isinstance(operation, Reduction) and MONOIDS[operation.kind].needs_order


def _with_scans(working: list[Member], kernel: Kernel) -> list[Member]:
    """Members of one loop, with the scans whose results they need, in order."""
    needed = {name for member in working for name in reads(member.operation)}
    chosen: list[Member] = []
    for member in reversed(kernel.members):
        made = needed.intersection(targets(member.operation))
        is_scan = isinstance(member.operation, Scan)
        if made and (is_scan or isinstance(member.operation, Pointwise)):
            needed.update(reads(member.operation))
        if member in working or (made and is_scan):
            chosen.append(member)
    return chosen[::-1]


def _levels(kernel: Kernel) -> dict[str, int]:
    """For each target, the loop in which it is made: after all loops whose reductions it needs."""
    level: dict[str, int] = {}
    ready: dict[str, int] = {}
    for member in kernel.members:
        operation = member.operation
        number = max((ready.get(load.buffer, 0) for load in loads(operation)), default=0)
        for name in targets(operation):
            level[name] = number
            ready[name] = number + 1 if isinstance(operation, Reduction) else number
    return level
