"""The legality of a Schedule: one ``check_<property>`` for each invariant beyond the program's.

Each raises InvalidSchedule: a defect of aotpack, never of the user's model. Nothing here uses the
rules that made the schedule.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import accesses, contiguous, written_index
from aotpack.ir.kernels.kernel import Kernel, Lifetime, Member, Schedule, launches
from aotpack.ir.kernels.rows import has_legal_strides, storage_bytes
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.reference import Array
from aotpack.ir.program import (
    all_axes,
    concats_by_part,
    expand_concats,
    in_place_pairs,
    loads,
    read_whole,
    reads,
    targets,
)
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.verify.phases import Phase
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.tiles import (
    InvalidSchedule,
    check_candidates,
    check_cluster_reductions,
    check_last_block,
    check_look_back,
    check_row_pipelines,
    check_shared_launches,
    check_split_sums,
    check_variants,
)

SAMPLED_POINTS = 4096  # of each member, when its points are compared


def verify_schedule(schedule: Schedule, phase: Phase = Phase.COMPLETE) -> None:
    """Check the program, then every invariant of the phase; the first broken one is raised."""
    verify(schedule.program)
    if schedule.weights is not None:
        verify_schedule(schedule.weights)
    for part in (part for kernel in schedule.kernels for part in kernel.parts):
        verify_schedule(part)
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
            message = f"{_name(member)} has the axes {_list(own)}, bound are {_list(bound)}"
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
        if _number(own) == 0:
            continue
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


# --- memory ------------------------------------------------------------------------------------


def check_strides(schedule: Schedule) -> None:
    """Strides are dense, or pad rows by less than a cache line.

    Inputs, weights, outputs and the tensors of calls are row-major; what the weight program makes
    is laid out as its readers say.
    """
    program = schedule.program
    fixed = {*program.inputs, *program.weights, *program.results} - {*program.derived}
    for operation in program.operations:
        if isinstance(operation, Foreign):
            fixed |= {*reads(operation), *operation.targets}
    for name, buffer in program.buffers.items():
        strides = schedule.strides.get(name)
        if strides is None or not has_legal_strides(buffer, strides):
            shown = "none" if strides is None else _list(strides)
            raise InvalidSchedule(schedule, None, f"{buffer} has the strides {shown}")
        if name in fixed and strides != schedule.given.get(name, contiguous(buffer.shape)):
            raise InvalidSchedule(schedule, None, f"{buffer} is not contiguous: {_list(strides)}")


def check_weights(schedule: Schedule) -> None:
    """The weight program has a schedule, which writes its outputs as they are read here."""
    program, made = schedule.program.weight_program, schedule.weights
    if made is None and program is None:
        return
    if made is None or program != made.program:
        raise InvalidSchedule(schedule, None, "the schedule of weights is of another program")
    if made.given != {name: schedule.strides[name] for name in schedule.program.derived}:
        raise InvalidSchedule(schedule, None, "derived weights are not laid out as they are read")


def check_lifetimes(schedule: Schedule) -> None:
    """A stored intermediate lives from its launch to the last launch that reads it."""
    lives = {life.buffer: life for life in schedule.lifetimes}
    if len(lives) < len(schedule.lifetimes):
        raise InvalidSchedule(schedule, None, "a buffer has two lifetimes")
    steps, results = enumerate(launches(schedule.kernels)), {*schedule.program.results}
    for position, kernel in ((step, k) for step, together in steps for k in together):
        for name in kernel.stored:
            if name in results:
                continue
            if name not in lives or lives[name].first != position:
                message = f"{name} is stored at launch {position}, where it does not begin to live"
                raise InvalidSchedule(schedule, kernel, message)
        for name in kernel.reads:
            first = lives[name].first + (not kernel.runs_in_last_block) if name in lives else 0
            if name in lives and not first <= position <= lives[name].last:
                message = f"{name} is read at launch {position}, where it does not live"
                raise InvalidSchedule(schedule, kernel, message)


def check_shared_storage(schedule: Schedule) -> None:
    """Buffers in one storage have disjoint lifetimes, or one overwrites the other in place."""
    by_storage: dict[str, list[Lifetime]] = {}
    parts = concats_by_part(schedule.program)
    for life in sorted(schedule.lifetimes, key=lambda life: life.first):
        if life.buffer in parts:
            continue
        by_storage.setdefault(life.storage, []).append(life)
    for storage, lives in by_storage.items():
        for before, after in pairwise(lives):
            kernel, *others = launches(schedule.kernels)[after.first]
            if before.last > after.first or before.first == after.first:
                message = f"{before.buffer} and {after.buffer} live in {storage} at once"
                raise InvalidSchedule(schedule, kernel, message)
            names = (before.buffer, after.buffer)
            meet = before.last == after.first
            if meet and (others or not _is_in_place(schedule, kernel, *names)):
                message = f"{after.buffer} overwrites other elements of {before.buffer}"
                raise InvalidSchedule(schedule, kernel, message)
        for life in lives:
            if not known_equal(_bytes(schedule, life.buffer), _bytes(schedule, storage)):
                raise InvalidSchedule(schedule, None, f"{life.buffer} does not fit {storage}")


def check_bases(schedule: Schedule) -> None:
    """An operation that overwrites a base is alone in its kernel, with the base's strides."""
    homes = {life.buffer: life.storage for life in schedule.lifetimes}
    homes |= {name: name for name in schedule.program.outputs}
    for update in schedule.program.updates:
        homes |= {update.name: update.name, update.value: update.name}
    bases: set[str] = set()
    for kernel, member in _members(schedule):
        operation = member.operation
        for target, base in in_place_pairs(operation):
            bases.add(base)
            readers = [k for k in schedule.kernels if base in k.reads]
            is_read = any(load.buffer == base for load in loads(operation))
            is_read |= read_whole(operation).count(base) > 1
            if len(kernel.members) > 1 or len(readers) > 1 or is_read:
                message = f"{base} is read beside what overwrites it"
                raise InvalidSchedule(schedule, kernel, message)
            is_alike = schedule.strides[target] == schedule.strides[base]
            if base not in homes or homes[base] != homes[target] or not is_alike:
                raise InvalidSchedule(schedule, kernel, f"{target} does not lie where {base} does")
    bases.update(concats_by_part(schedule.program))
    results = schedule.result_storages
    for life in schedule.lifetimes:
        if life.storage in results and life.buffer not in bases:
            message = f"{life.buffer} lies in {life.storage}, which nothing turns it into"
            raise InvalidSchedule(schedule, None, message)


def check_concat_places(schedule: Schedule) -> None:
    """The parts of a concat buffer have its memory and strides, and live within its lifetime."""
    lives = {life.buffer: life for life in schedule.lifetimes}
    for part, whole in concats_by_part(schedule.program).items():
        life = lives[part]
        around = lives.get(whole, Lifetime(whole, whole, life.first, life.last))
        inside = around.first <= life.first and life.last <= around.last
        if life.storage != around.storage or not inside:
            raise InvalidSchedule(schedule, None, f"{part} does not lie where {whole} does")
        if schedule.strides[part] != schedule.strides[whole]:
            raise InvalidSchedule(schedule, None, f"{part} is not laid out as {whole} is")


def check_update_order(schedule: Schedule) -> None:
    """After an update has overwritten a tensor, no kernel reads the old value."""
    together = enumerate(launches(schedule.kernels))
    steps = [(step, kernel) for step, kernels in together for kernel in kernels]
    for update in schedule.program.updates:
        name, value = update.name, update.value
        writing, writer = next((step, k) for step, k in steps if value in k.stored)
        for step, kernel in steps:
            if name not in kernel.reads or step < writing:
                continue
            if kernel is not writer or not _is_in_place(schedule, kernel, name, value):
                message = f"{name} is read after {value} has overwritten it"
                raise InvalidSchedule(schedule, kernel, message)


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
    check_last_block: Phase.TILED,
    check_look_back: Phase.LAUNCHED,
    check_split_sums: Phase.LAUNCHED,
}


# --- traversal ---------------------------------------------------------------------------------


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


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _walked(kernel: Kernel, member: Member) -> tuple[Axis, ...]:
    """The axes of the kernel that a member loops over."""
    template_op = kernel.template_op
    if template_op is not None:
        return all_axes(template_op) if member.operation is template_op else template_op.axes
    return kernel.axes[:1] if member.outer else kernel.axes


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


def _is_in_place(schedule: Schedule, kernel: Kernel, before: str, after: str) -> bool:
    """True when a kernel reads one buffer only where it writes the other, in equal widths."""
    if kernel.bases.get(after) == before:
        return True
    widths = {schedule.program.buffers[name].dtype.itemsize for name in (before, after)}
    touched = list(accesses(kernel))
    read = {a.offset(schedule.strides) for a in touched if a.buffer == before}
    written = {a.offset(schedule.strides) for a in touched if a.buffer == after}
    return read == written and bool(written) and len(widths) == 1


def _bytes(schedule: Schedule, name: str) -> Int:
    return storage_bytes(schedule.program.buffers[name], schedule.strides)
