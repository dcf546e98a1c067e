"""The walks of a reduction kernel: the passes over its inner axis, and the values of each.

Reductions whose operands need no other reduction go into the first walk; members that need their
results go into the next. All stores of whole rows are in the last walk, after which nothing is
read again: so a result may overwrite an operand.
"""

from dataclasses import dataclass, field

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Pointwise, Reduction, Scan
from aotpack.ir.program import loads, targets
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Guarded, Load, Value, children
from aotpack.render.c.loops.loops import EXPENSIVE, member_values, weight
from aotpack.render.c.loops.reductions import two_pass
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.loop_fission import fission_groups


@dataclass(slots=True)
class RowLoop:
    """One loop: scans come before it, each in a loop of its own."""

    scans: list[Member] = field(default_factory=list)
    reductions: list[Member] = field(default_factory=list)  # the only pass, or the first of two
    seconds: list[Member] = field(default_factory=list)  # second passes
    stored: list[Member] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)  # written to row buffers
    used: list[Value] = field(default_factory=list)  # read from row buffers


@dataclass(frozen=True, slots=True)
class WalkPlan:
    """The walks in order, then the members that are stored once for each row."""

    walks: tuple[RowLoop, ...]
    outer: tuple[Member, ...]


def plan_walks(
    kernel: Kernel, builder: KernelBuilder, inner: frozenset[Axis], innermost: Axis
) -> WalkPlan:
    """Place every member, then choose the values to keep in row buffers.

    ``inner`` are the axes of a walk's loops; ``innermost`` is the axis of the innermost loop.
    """
    ready: dict[str, int] = {}
    walks: list[RowLoop] = []
    stored: list[tuple[int, Member]] = []
    outer: list[Member] = []
    for member in kernel.members:
        operation = member.operation
        number = max((ready.get(load.buffer, 0) for load in loads(operation)), default=0)
        after = number + _place(member, number, walks)
        ready.update(dict.fromkeys(targets(operation), after))
        if not set(targets(operation)) & set(kernel.stored):
            continue
        if member.outer or isinstance(operation, Reduction):
            outer.append(member)
        else:
            stored.append((after, member))
    if stored:
        last = max(len(walks) - 1, *(number for number, _ in stored))
        _at(walks, last).stored += [member for _, member in stored]
    walks = [part for walk in walks for part in _fission(walk, kernel, inner)]
    _keep(walks, builder, inner, innermost)
    return WalkPlan(tuple(walks), tuple(outer))


def _place(member: Member, number: int, walks: list[RowLoop]) -> int:
    """Put a reduction or scan where its operands are ready; how many walks later its result is."""
    if isinstance(member.operation, Pointwise):
        return 0
    if isinstance(member.operation, Scan):
        _at(walks, number).scans.append(member)
        return 0
    assert isinstance(member.operation, Reduction)
    _at(walks, number).reductions.append(member)
    if two_pass(member.operation.kind) is None:
        return 1
    _at(walks, number + 1).seconds.append(member)
    return 2


def _fission(walk: RowLoop, kernel: Kernel, inner: frozenset[Axis]) -> list[RowLoop]:
    """A walk for each group of reductions that read nothing in common."""
    if walk.scans or walk.seconds or walk.stored:
        return [walk]
    groups = fission_groups(walk.reductions, kernel, inner)
    return [RowLoop(reductions=group) for group in groups]


def _at(walks: list[RowLoop], number: int) -> RowLoop:
    while len(walks) <= number:
        walks.append(RowLoop())
    return walks[number]


def _keep(
    walks: list[RowLoop], builder: KernelBuilder, inner: frozenset[Axis], innermost: Axis
) -> None:
    """Give row buffers to values that are expensive and needed by several walks.

    Row buffers are written and read in the innermost loop: only for values that are computed there.
    """
    reached = [_reached(_roots(walk, builder), builder, frozenset()) for walk in walks]
    kept: dict[Value, None] = {}
    for number, walk in enumerate(walks):
        seen = _reached(_roots(walk, builder), builder, frozenset(kept))
        walk.used = [value for value in seen if value in kept]
        for value in seen:
            again = any(value in later for later in reached[number + 1 :])
            if not again or value in kept or not _is_expensive(value, builder):
                continue
            needs = builder.emitter.needs(value)
            if needs & inner and innermost in needs:
                walk.kept.append(value)
        kept.update(dict.fromkeys(walk.kept))


def _is_expensive(value: Value, builder: KernelBuilder) -> bool:
    """True for an expensive operator, or a guarded value with one where its condition holds."""
    pending = [value]
    seen: set[Value] = set()
    while pending:
        part = pending.pop()
        if not isinstance(part, Guarded):
            if weight(part) >= EXPENSIVE:
                return True
        elif part not in seen:
            seen.add(part)
            pending += _reached([part.value], builder, frozenset())
    return False


def _roots(walk: RowLoop, builder: KernelBuilder) -> list[Value]:
    members = [*walk.reductions, *walk.seconds, *walk.stored]
    return [
        value
        for m in members
        if not isinstance(m.operation, Scan)
        for value in member_values(m, builder)
    ]


def _reached(
    roots: list[Value], builder: KernelBuilder, kept: frozenset[Value]
) -> dict[Value, None]:
    """Every value that the roots compute, but nothing behind the kept ones or behind a guard.

    A guarded value is computed only where its condition holds: elsewhere it may read out of bounds.
    """
    found: dict[Value, None] = {}
    stack = list(reversed(roots))
    while stack:
        value = stack.pop()
        if value in found:
            continue
        found[value] = None
        if value in kept:
            continue
        resolved = builder.resolve(value) if isinstance(value, Load) else None
        if isinstance(resolved, str):
            continue
        if resolved is not None:
            stack.append(resolved)
        elif isinstance(value, Guarded):
            stack += [value.condition, value.otherwise]
        else:
            stack += children(value)
    return found
