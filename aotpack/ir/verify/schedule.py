"""The legality of a Schedule: one ``check_<property>`` for each invariant beyond the program's.

Each raises InvalidSchedule: a defect of aotpack, never of the user's model. Nothing here uses the
rules that made the schedule.
"""

from collections.abc import Callable, Iterator

import numpy as np

from aotpack.ir.kernels.access import accesses, written_index
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule, launches
from aotpack.ir.operations import Attention, Matmul, Reduction
from aotpack.ir.ops.reference import Array
from aotpack.ir.program import (
    all_axes,
    expand_concats,
    loads,
    reads,
    targets,
)
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Var
from aotpack.ir.verify.memory import (
    check_bases,
    check_concat_places,
    check_lifetimes,
    check_shared_storage,
    check_strides,
    check_update_order,
    check_weights,
)
from aotpack.ir.verify.phases import Phase
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.tiles import (
    InvalidSchedule,
    check_candidates,
    check_cluster_reductions,
    check_clusters_of_keys,
    check_first_keys,
    check_last_block,
    check_look_back,
    check_row_pipelines,
    check_shared_launches,
    check_split_sums,
    check_turns,
    check_variants,
    listed,
)

SAMPLED_POINTS = 4096  # of each member, when its points are compared


def verify_schedule(
    schedule: Schedule, phase: Phase = Phase.COMPLETE, before: Schedule | None = None
) -> None:
    """Check the program, then every invariant of the phase; the first broken one is raised.

    The program and the parts that ``before`` has too were checked with it.
    """
    if before is None or schedule.program is not before.program:
        verify(schedule.program)
    known = {id(part) for part in _inside(before)} if before is not None else set[int]()
    for part in _inside(schedule):
        if id(part) not in known:
            verify_schedule(part)
            known.add(id(part))
    for check, first in CHECKS.items():
        if first <= phase:
            check(schedule)


# --- kernels -----------------------------------------------------------------------------------


def check_kernel_order(schedule: Schedule) -> None:
    """A kernel reads inputs, weights, and what kernels before it stored."""
    known = {*schedule.program.inputs, *schedule.program.weights}
    for together in launches(schedule.kernels):
        for kernel in together:
            made = () if kernel.is_opaque else kernel.stored
            if kernel.runs_in_last_block:
                known.update(together[0].stored)
            for name in _read_from_memory(kernel):
                if not {*known, *made}.issuperset(expand_concats((name,), schedule.program)):
                    message = f"{name} is read before it is stored"
                    raise InvalidSchedule(schedule, kernel, message)
                if name not in kernel.reads:
                    raise InvalidSchedule(schedule, kernel, f"{name} is not among its reads")
        known.update(name for kernel in together for name in kernel.stored)


def check_stored_once(schedule: Schedule) -> None:
    """Each result is stored by exactly one kernel, any other buffer by at most one."""
    stored = [name for kernel in schedule.kernels for name in kernel.stored]
    for name in {*stored, *expand_concats(schedule.program.results, schedule.program)}:
        times = stored.count(name)
        if times != 1:
            raise InvalidSchedule(schedule, None, f"{name} is stored by {times} kernels")
    for kernel in schedule.kernels:
        made = [name for member in kernel.members for name in targets(member.operation)]
        for name in kernel.stored:
            if made.count(name) != 1:
                message = f"{name} is stored, and made by {made.count(name)} of its members"
                raise InvalidSchedule(schedule, kernel, message)


def check_operations(schedule: Schedule) -> None:
    """Each operation of the program is a member of exactly one kernel."""
    members = [m.operation for kernel in schedule.kernels for m in kernel.members]
    placed = sorted(targets(operation) for operation in members)
    expected = sorted(targets(operation) for operation in schedule.program.operations)
    if placed != expected:
        message = f"the kernels make {placed}, the program makes {expected}"
        raise InvalidSchedule(schedule, None, message)


# --- members -----------------------------------------------------------------------------------


def check_binding_axes(schedule: Schedule) -> None:
    """A binding gives each axis of its operation once, in axes that the member loops over."""
    for kernel, member in _members(schedule):
        bound = [axis for axis, _ in member.binding]
        own = all_axes(member.operation)
        if len(bound) != len(own) or set(bound) != set(own):
            message = f"{_name(member)} has the axes {listed(own)}, bound are {listed(bound)}"
            raise InvalidSchedule(schedule, kernel, message)
        allowed = {*_walked(kernel, member), *schedule.program.sizes}
        for axis, value in member.binding:
            for leaf in value.leaves():
                if leaf not in allowed:
                    message = f"{_name(member)}: {axis} = {value} uses {leaf}"
                    raise InvalidSchedule(schedule, kernel, message)


def check_binding_points(schedule: Schedule) -> None:
    """A member visits each point of its operation once: tested on some points, at small sizes."""
    sizes = {size.name: _small(size) for size in schedule.program.sizes}
    for kernel, member in _members(schedule):
        if kernel.is_opaque:
            continue
        walked = _walked(kernel, member)
        extents = [int(axis.extent.evaluate(sizes)) for axis in walked]
        own = [int(axis.extent.evaluate(sizes)) for axis, _ in member.binding]
        if _number(extents) != _number(own):
            message = f"{_name(member)} has {own} points, the kernel {extents}"
            raise InvalidSchedule(schedule, kernel, message)
        if min(own, default=1) <= 0 or _renames(member, dict(zip(walked, extents, strict=True))):
            continue  # no points; or sizes that no call has, where data decide them
        points = _sample(extents)
        place = {**sizes, **{axis.name: p for axis, p in zip(walked, points, strict=True)}}
        met = [np.broadcast_to(v.evaluate(place), points[0].shape) for _, v in member.binding]
        for (axis, value), entry, extent in zip(member.binding, met, own, strict=True):
            if entry.min() < 0 or entry.max() >= extent:
                message = f"{_name(member)}: {axis} = {value} leaves [0, {axis.extent})"
                raise InvalidSchedule(schedule, kernel, message)
        if met and len(np.unique(np.stack(met), axis=1).T) < points[0].size:
            raise InvalidSchedule(schedule, kernel, f"{_name(member)} meets a point twice")


def check_registers(schedule: Schedule) -> None:
    """A value read from an earlier member was written in the same program, at the same index."""
    for kernel in schedule.kernels:
        made: dict[str, Member] = {}
        single = {axis: 0 for axis in kernel.axes if axis.extent.constant == 1}
        inside = {name for member in kernel.members for name in targets(member.operation)}
        for member in kernel.members:
            rewrite = Rewriter(dict(member.binding))
            for load in loads(member.operation):
                if load.buffer not in inside:
                    continue
                writer = made.get(load.buffer)
                if writer is None:
                    message = f"{_name(member)} reads {load.buffer} before it is made"
                    raise InvalidSchedule(schedule, kernel, message)
                index = (rewrite.index(part).substitute(single) for part in load.index)
                written = (part.substitute(single) for part in written_index(writer))
                if tuple(index) != tuple(written) or not _holds(writer, member):
                    message = f"{_name(member)} reads {load}, which another program may have made"
                    raise InvalidSchedule(schedule, kernel, message)
            made |= dict.fromkeys(targets(member.operation), member)


CHECKS: dict[Callable[[Schedule], None], Phase] = {  # and the phase from which each holds
    check_kernel_order: Phase.ORDERED,
    check_shared_launches: Phase.TILED,
    check_stored_once: Phase.FUSED,
    check_operations: Phase.FUSED,
    check_binding_axes: Phase.FUSED,
    check_binding_points: Phase.FUSED,
    check_registers: Phase.FUSED,
    check_strides: Phase.LAID_OUT,
    check_weights: Phase.COMPLETE,
    check_lifetimes: Phase.COMPLETE,
    check_shared_storage: Phase.COMPLETE,
    check_bases: Phase.COMPLETE,
    check_concat_places: Phase.COMPLETE,
    check_update_order: Phase.UPDATED,
    check_variants: Phase.TILED,
    check_candidates: Phase.TILED,
    check_row_pipelines: Phase.TILED,
    check_cluster_reductions: Phase.TILED,
    check_clusters_of_keys: Phase.TILED,
    check_last_block: Phase.TILED,
    check_look_back: Phase.LAUNCHED,
    check_split_sums: Phase.LAUNCHED,
    check_first_keys: Phase.UPDATED,
    check_turns: Phase.LAUNCHED,
}


# --- traversal ---------------------------------------------------------------------------------


def _inside(schedule: Schedule) -> Iterator[Schedule]:
    """The schedules of the weight program and of branches and loops."""
    if schedule.weights is not None:
        yield schedule.weights
    yield from (part for kernel in schedule.kernels for part in kernel.parts)


def _members(schedule: Schedule) -> Iterator[tuple[Kernel, Member]]:
    for kernel in schedule.kernels:
        for member in kernel.members:
            yield kernel, member


def _read_from_memory(kernel: Kernel) -> Iterator[str]:
    """The buffers a kernel reads, as its members say."""
    if kernel.is_opaque:
        yield from reads(kernel.members[0].operation)
    yield from (access.buffer for access in accesses(kernel) if not access.is_store)


def _name(member: Member) -> str:
    return ", ".join(targets(member.operation))


def _walked(kernel: Kernel, member: Member) -> tuple[Axis, ...]:
    """The axes of the kernel that a member loops over."""
    template_op = kernel.template_op
    if template_op is not None:
        if isinstance(member.operation, Reduction) and isinstance(template_op, Matmul):
            return (template_op.m, template_op.k)  # a sum over the rows of the left factor
        is_template = isinstance(member.operation, (Matmul, Attention))
        return all_axes(template_op) if is_template else template_op.axes
    return kernel.axes[:1] if member.outer else kernel.axes


def _renames(member: Member, extents: dict[Axis, int]) -> bool:
    """True if a member's axes are those of the kernel under other names: each point is met once."""
    values = [value.atom for _, value in member.binding]
    return len(set(values)) == len(values) and all(
        isinstance(value, Axis) and value in extents and value.extent is axis.extent
        for value, (axis, _) in zip(values, member.binding, strict=True)
    )


def _holds(writer: Member, reader: Member) -> bool:
    """False if a member that runs once a row reads a value with an element for each column."""
    return writer.outer or not reader.outer or isinstance(writer.operation, Reduction)


def _small(size: Var) -> int:
    """A small size for the test: a few steps of its multiple, within its range."""
    low = max(size.low, min(3, size.high))
    return min(-(-low // size.multiple) * size.multiple, size.high)


def _number(extents: list[int]) -> int:
    return int(np.prod(extents, dtype=np.int64))


def _sample(extents: list[int]) -> list[Array]:
    """Points of a space: neighbours at its beginning, and some up to its end."""
    side = max(2, int(SAMPLED_POINTS ** (1 / max(1, len(extents)))) // 2)
    sides = [
        np.unique(np.concatenate([np.arange(min(n, side)), np.linspace(0, n - 1, side, dtype=int)]))
        for n in extents
    ]
    grids = np.meshgrid(*sides, indexing="ij")
    return [grid.ravel() for grid in grids]
