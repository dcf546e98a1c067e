"""A kernel under construction: axes, members, and the rules for adding an operation.

Loop kernels have axes (x,) or (x, r): all outer points flattened, and the reduced or scanned ones.
Template kernels have the axes of their template operation, and pointwise members over its output.

An operation is added if its axes can be written in the axes of the kernel, so that each value it
reads from a member is in registers of the same program: read and written index are one expression.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import delinearize, flatten_index, points, written_index
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.kernels.tiles import SHORTEST_SIDE
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan, Scatter
from aotpack.ir.program import Control, Operation, Program, loads, reads, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal, typical
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value
from aotpack.schedule.fusion.refusal import Refusal
from aotpack.schedule.fusion.solve import is_read_whole, linear_of_kernel, mixed_radix, solve_read

Binding = Mapping[Axis, Int]


@dataclass(frozen=True, slots=True)
class Group:
    """``written``/``read`` are buffers by members / from outside."""

    axes: tuple[Axis, ...]
    members: tuple[Member, ...]
    written: tuple[str, ...]
    read: tuple[str, ...]

    @property
    def is_template(self) -> bool:
        return isinstance(self.members[0].operation, (Matmul, Attention))

    @property
    def is_closed(self) -> bool:
        """True for a kernel that takes no members: its launch completes the results."""
        return isinstance(self.members[0].operation, (Scatter, Foreign, Control))

    @property
    def is_flat(self) -> bool:
        """True for a pointwise kernel: one axis, no reduction yet."""
        return not self.is_template and len(self.axes) == 1


def start(operation: Operation) -> Group:
    """A kernel of one operation."""
    axes: tuple[Axis, ...]
    binding: Binding
    if isinstance(operation, (Foreign, Control)):
        axes, binding = (), {}
    elif isinstance(operation, (Matmul, Attention)):
        axes = _template_axes(operation)
        binding = {axis: Int.of(axis) for axis in axes}
    else:
        axes = _loop_axes(operation)
        binding = _decode(operation, axes)
    member = Member(operation, tuple(binding.items()), outer=len(axes) == 1)
    return Group(axes, (member,), targets(operation), reads(operation))


def always_starts(operation: Operation) -> bool:
    """True for an operation that no group takes."""
    return isinstance(operation, (Matmul, Attention, Scatter, Foreign, Control))


def join(
    group: Group, operation: Operation, program: Program, *, is_last: bool = False
) -> Group | Refusal:
    """The group with ``operation`` added, or the reason why not.

    When groups are merged at last, what an operation reads may be read or made by no other member,
    and its loops may be reordered.
    """
    if always_starts(operation):
        return Refusal.STARTS
    if group.is_closed:
        return Refusal.CLOSED
    if isinstance(operation, (Reduction, Scan)):
        return _join_reduction(group, operation, program, is_last=is_last)
    return _join_pointwise(group, operation, program, is_last=is_last)


def _template_axes(operation: Matmul | Attention) -> tuple[Axis, ...]:
    if isinstance(operation, Matmul):
        return (*operation.batch, operation.m, operation.n, operation.k)
    o = operation
    return (o.batch, o.head, o.i, o.j, o.d, o.e)


def _split(operation: Operation) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Outer and inner axes of a loop operation."""
    match operation:
        case Reduction():
            return operation.axes, operation.inner
        case Scan():
            outer = tuple(axis for axis in operation.axes if axis is not operation.along)
            return outer, (operation.along,)
        case _:
            return operation.axes, ()


def _loop_axes(operation: Operation) -> tuple[Axis, ...]:
    outer, inner = _split(operation)
    x = Axis("x", points(outer))
    return (x, Axis("r", points(inner))) if inner else (x,)


def _decode(operation: Operation, axes: tuple[Axis, ...]) -> dict[Axis, Int]:
    outer, inner = _split(operation)
    binding = delinearize(outer, Int.of(axes[0]))
    if inner:
        binding |= delinearize(inner, Int.of(axes[1]))
    return binding


def has_equal_loops(one: Group, other: Group) -> bool:
    """True when two groups of loops may have the same loops, one for each row or for each point."""
    if one.is_flat and not other.is_flat:
        one, other = other, one
    if one.is_flat or not other.is_flat:
        return _same_extents(one.axes, other.axes)
    count = points(other.axes)
    return known_equal(count, points(one.axes)) or known_equal(count, one.axes[0].extent)


def _join_reduction(
    group: Group, operation: Reduction | Scan, program: Program, *, is_last: bool
) -> Group | Refusal:
    if group.is_template:
        return Refusal.PARTIAL_ROW
    axes = _loop_axes(operation)
    binding = _decode(operation, axes)
    if group.is_flat:
        refined = _refine(group, operation, axes, binding, program)
        if isinstance(refined, Refusal):
            return refined
        group = refined
    elif not _same_extents(group.axes, axes):
        return Refusal.POINTS
    else:
        binding = _rename(binding, dict(zip(axes, map(Int.of, group.axes), strict=True)))
    if not is_last and not _shares(group, operation, binding):
        return Refusal.NOTHING_SHARED
    return _add(group, operation, binding, outer=False)


def _refine(
    group: Group, operation: Operation, axes: tuple[Axis, ...], binding: Binding, program: Program
) -> Group | Refusal:
    """Give a flat group the axes (x, r) of a reduction that reads its results, or shares reads.

    Its points are renumbered so that each element is made where the reduction needs it. Refused if
    its members' reads of each other then no longer match the written index.
    """
    total = points(axes)
    (flat,) = group.axes
    if known_equal(flat.extent, total):
        found = _position_read(group, operation, binding, program)
        if found is None:
            return _refused_order(group, operation)
        position, outer = found, False
    elif known_equal(flat.extent, axes[0].extent):
        position, outer = Int.of(axes[0]), True
    else:
        return Refusal.POINTS
    renumbered = replace(group, axes=axes, members=())
    for member in group.members:
        moved = _rename(dict(member.binding), {flat: position})
        if not _reads_registers(renumbered, member.operation, moved, outer=outer):
            return Refusal.OTHER_PROGRAM
        placed = replace(member, binding=tuple(moved.items()), outer=outer)
        renumbered = replace(renumbered, members=(*renumbered.members, placed))
    return renumbered


def _refused_order(group: Group, operation: Operation) -> Refusal:
    is_read = any(_writer(group, name) for name in reads(operation))
    return Refusal.ORDER if is_read else Refusal.NOTHING_SHARED


def _position_read(
    group: Group, operation: Operation, binding: Binding, program: Program
) -> Int | None:
    """The position, in a flat group's numbering, of the element that a bound operation reads.

    None if it reads no member, or not each element exactly once.
    """
    rewrite = Rewriter(binding)
    for load in loads(operation):
        if _writer(group, load.buffer) is None:
            continue
        shape = program.buffers[load.buffer].shape
        radix = mixed_radix(flatten_index(load.index, shape))
        if radix is None or not known_equal(points(radix), group.axes[0].extent):
            return None
        return flatten_index(tuple(map(rewrite.index, load.index)), shape)
    return None


def _join_pointwise(
    group: Group, operation: Operation, program: Program, *, is_last: bool
) -> Group | Refusal:
    refusal, unshared = Refusal.POINTS, None
    for axes, outer in _spaces(group):
        binding = _bind(group, operation, axes, program)
        if binding is None:
            continue
        if _shares(group, operation, binding):
            joined = _add(group, operation, binding, outer=outer)
            if isinstance(joined, Group):
                return joined
            refusal = joined
        else:
            unshared = unshared or (binding, outer)
    if unshared is not None and is_last:
        reordered = _reordered(group, operation, program) if group.is_flat else None
        binding, outer = (reordered, True) if reordered else unshared
        return _add(group, operation, binding, outer=outer)
    is_first = unshared is not None and refusal is Refusal.POINTS
    return Refusal.NOTHING_SHARED if is_first else refusal


def _spaces(group: Group) -> list[tuple[tuple[Axis, ...], bool]]:
    """The kernel axes of a pointwise member: all points, or one point for each row."""
    first = group.members[0].operation
    if isinstance(first, (Matmul, Attention)):
        return [(first.axes, False)]
    if len(group.axes) == 1:
        return [(group.axes, True)]
    return [(group.axes, False), (group.axes[:1], True)]


def _reordered(group: Group, operation: Operation, program: Program) -> Binding | None:
    """The binding with which an operation loads a whole tensor where a member does.

        y[i, j] = f(x[i, j]); z[i, j] = g(x[j, i])    ->    at i, j: y[i, j] = ...; z[j, i] = ...

    None if the last axes of both directions have too few points for a tile of both.
    """
    assert isinstance(operation, Pointwise)
    for load in loads(operation):
        shape = program.buffers[load.buffer].shape
        sides = [size for size in shape if size.constant != 1][-1:]
        sides += [a.extent for a in operation.axes if a.extent.constant != 1][-1:]
        if min(map(typical, sides), default=0) < SHORTEST_SIDE:
            continue
        for member in group.members:
            rewrite = Rewriter(dict(member.binding))
            for other in loads(member.operation):
                if other.buffer == load.buffer and is_read_whole(other, shape):
                    place = tuple(map(rewrite.index, other.index))
                    binding = solve_read(operation, load, place, shape, group.axes)
                    if binding is not None:
                        return binding
    return None


def _bind(
    group: Group, operation: Operation, axes: tuple[Axis, ...], program: Program
) -> Binding | None:
    """Write the operation's axes in ``axes``: through a read from a member, else by position."""
    assert isinstance(operation, Pointwise)
    if not known_equal(points(operation.axes), points(axes)):
        return None
    for load in loads(operation):
        member = _writer(group, load.buffer)
        if member is not None:
            shape = program.buffers[load.buffer].shape
            solved = solve_read(operation, load, written_index(member), shape, axes)
            if solved is not None:
                return solved
    return delinearize(operation.axes, linear_of_kernel(axes))


def _writer(group: Group, buffer: str) -> Member | None:
    return next((m for m in group.members if buffer in targets(m.operation)), None)


def _add(group: Group, operation: Operation, binding: Binding, *, outer: bool) -> Group | Refusal:
    """Add a member if the values that it reads from members are in its own registers."""
    if not _reads_registers(group, operation, binding, outer=outer):
        return Refusal.OTHER_PROGRAM
    member = Member(operation, tuple(binding.items()), outer)
    written = (*group.written, *targets(operation))
    read = dict.fromkeys((*group.read, *(n for n in reads(operation) if n not in group.written)))
    return replace(group, members=(*group.members, member), written=written, read=tuple(read))


def _reads_registers(group: Group, operation: Operation, binding: Binding, *, outer: bool) -> bool:
    rewrite = Rewriter(binding)
    single = {axis: 0 for axis in group.axes if axis.extent.constant == 1}
    for load in loads(operation):
        member = _writer(group, load.buffer)
        if member is None:
            continue
        if outer and not member.outer and not isinstance(member.operation, Reduction):
            return False  # once a row, it cannot read a value with an element for each column
        index = (rewrite.index(part).substitute(single) for part in load.index)
        written = (part.substitute(single) for part in written_index(member))
        if tuple(index) != tuple(written):
            return False
    return True


def _shares(group: Group, operation: Operation, binding: Binding) -> bool:
    """True when a program of the group already loads or computes something the operation reads."""
    if any(_writer(group, name) for name in reads(operation)):
        return True
    mine = {_moved(load, binding) for load in loads(operation)}
    return any(
        _moved(load, dict(member.binding)) in mine
        for member in group.members
        for load in loads(member.operation)
    )


def _moved(load: Load, binding: Binding) -> Value:
    """A load with its index in kernel axes."""
    return Rewriter(binding)(load)


def _same_extents(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> bool:
    return len(a) == len(b) and all(
        known_equal(p.extent, q.extent) for p, q in zip(a, b, strict=True)
    )


def _rename(binding: Binding, change: Mapping[Axis, Int]) -> dict[Axis, Int]:
    return {axis: value.substitute(change) for axis, value in binding.items()}
