"""What makes a Schedule legal: one ``check_<property>`` for each invariant beyond the program's.

Each raises InvalidSchedule: a defect of aotpack, never of the user's model. Nothing here trusts
the rules by which the schedule was made.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np

from aotpack.ir.access import accesses, contiguous, written_index
from aotpack.ir.facts import known_equal, known_multiple
from aotpack.ir.integers import Axis, Int, Var, product
from aotpack.ir.nodes import Reduction, Scan, Scatter, all_axes, loads, targets
from aotpack.ir.reference import Array
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.schedule import (
    Kernel,
    Lifetime,
    Member,
    PointwiseTile,
    ReductionTile,
    Schedule,
    block_count,
    gpu_variants,
    launches,
    programs,
)
from aotpack.ir.verify import verify

SAMPLED_POINTS = 4096  # of each member, when its points are compared


class InvalidSchedule(Exception):
    """An invariant of the schedule is broken. Its text is the place, then the schedule."""

    def __init__(self, schedule: Schedule, kernel: Kernel | None, message: str) -> None:
        place = f"kernel {kernel.name}: " if kernel else ""
        super().__init__(f"{place}{message}\n\n{schedule}")


def verify_schedule(schedule: Schedule) -> None:
    """Check every invariant, those of the program first; the first broken one is raised."""
    verify(schedule.program)
    for check in CHECKS:
        check(schedule)


# --- kernels -----------------------------------------------------------------------------------


def check_kernel_order(schedule: Schedule) -> None:
    """A kernel reads inputs, weights, and what kernels before it stored."""
    known = {*schedule.program.inputs, *schedule.program.weights}
    for together in launches(schedule.kernels):
        for kernel in together:
            for access in accesses(kernel):
                if access.is_store:
                    continue
                if access.buffer not in {*known, *kernel.stored}:
                    message = f"{access.buffer} is read before it is stored"
                    raise InvalidSchedule(schedule, kernel, message)
                if access.buffer not in kernel.reads:
                    message = f"{access.buffer} is not among its reads"
                    raise InvalidSchedule(schedule, kernel, message)
        known.update(name for kernel in together for name in kernel.stored)


def check_joined(schedule: Schedule) -> None:
    """Kernels of one launch have one GPU tile each, as many warps, and numbers of programs."""
    for together in launches(schedule.kernels):
        if len(together) == 1:
            continue
        warps = {variant.tile.num_warps for k in together for variant in gpu_variants(k)}
        for kernel in together:
            tiles = [variant.tile for variant in gpu_variants(kernel)]
            counts = [
                block_count(kernel, tile).constant
                for tile in tiles
                if isinstance(tile, (PointwiseTile, ReductionTile))
            ]
            if len(tiles) != 1 or counts in ([], [None]) or len(warps) > 1:
                message = f"the tiles {_list(tiles)} do not share a launch"
                raise InvalidSchedule(schedule, kernel, message)


def check_stored_once(schedule: Schedule) -> None:
    """Each result is stored by exactly one kernel, any other buffer by at most one."""
    stored = [name for kernel in schedule.kernels for name in kernel.stored]
    for name in {*stored, *schedule.program.results}:
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
    """A binding gives each axis of its operation once, in axes that the member runs over."""
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
    """A member meets each point of its operation once: tried on some points, at small sizes."""
    sizes = {size.name: _small(size) for size in schedule.program.sizes}
    for kernel, member in _members(schedule):
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
    """What a member reads of members before it lies in the same program, at the written index."""
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
    """The elements of a buffer lie without gaps, those of inputs, weights and outputs row-major."""
    program = schedule.program
    fixed = {*program.inputs, *program.weights, *program.results}
    for name, buffer in program.buffers.items():
        strides = schedule.strides.get(name)
        if strides is None or not _is_dense(buffer.shape, strides):
            shown = "none" if strides is None else _list(strides)
            raise InvalidSchedule(schedule, None, f"{buffer} has the strides {shown}")
        if name in fixed and strides != contiguous(buffer.shape):
            raise InvalidSchedule(schedule, None, f"{buffer} is not contiguous: {_list(strides)}")


def check_lifetimes(schedule: Schedule) -> None:
    """What is stored and no result lives from its launch to the last launch that reads it."""
    lives = {life.buffer: life for life in schedule.lifetimes}
    if len(lives) < len(schedule.lifetimes):
        raise InvalidSchedule(schedule, None, "a buffer has two lifetimes")
    steps = enumerate(launches(schedule.kernels))
    for position, kernel in ((step, k) for step, together in steps for k in together):
        for name in kernel.stored:
            if name in schedule.program.results:
                continue
            if name not in lives or lives[name].first != position:
                message = f"{name} is stored at launch {position}, where it does not begin to live"
                raise InvalidSchedule(schedule, kernel, message)
        for name in kernel.reads:
            if name in lives and not lives[name].first < position <= lives[name].last:
                message = f"{name} is read at launch {position}, where it does not live"
                raise InvalidSchedule(schedule, kernel, message)


def check_shared_storage(schedule: Schedule) -> None:
    """Buffers in one storage live one after the other, or one overwrites the other in place."""
    by_storage: dict[str, list[Lifetime]] = {}
    for life in sorted(schedule.lifetimes, key=lambda life: life.first):
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


def check_scatters(schedule: Schedule) -> None:
    """A scatter is alone in its kernel, in memory that its base has left to it, laid out alike."""
    homes = {life.buffer: life.storage for life in schedule.lifetimes}
    homes |= {name: name for name in schedule.program.outputs}
    for update in schedule.program.updates:
        homes |= {update.name: update.name, update.value: update.name}
    bases: set[str] = set()
    for kernel, member in _members(schedule):
        operation = member.operation
        if not isinstance(operation, Scatter):
            continue
        target, base = operation.target, operation.base
        bases.add(base)
        readers = [k for k in schedule.kernels if base in k.reads]
        is_read = any(load.buffer == base for load in loads(operation))
        if len(kernel.members) > 1 or len(readers) > 1 or is_read:
            raise InvalidSchedule(schedule, kernel, f"{base} is read beside the scatter into it")
        is_alike = schedule.strides[target] == schedule.strides[base]
        if base not in homes or homes[base] != homes[target] or not is_alike:
            raise InvalidSchedule(schedule, kernel, f"{target} does not lie where {base} does")
    for life in schedule.lifetimes:
        if not schedule.is_own(life) and life.buffer not in bases:
            message = f"{life.buffer} lies in {life.storage}, which is no scatter's"
            raise InvalidSchedule(schedule, None, message)


def check_updates(schedule: Schedule) -> None:
    """Once a tensor is overwritten by its new value, nobody reads the old one."""
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


def check_variants(schedule: Schedule) -> None:
    """For every architecture a kernel has variants, of which the last alone takes everything."""
    for kernel in schedule.kernels:
        for arch in {0, *(variant.arch_low for variant in kernel.variants)}:
            fitting = [v for v in kernel.variants if v.arch_low <= arch <= v.arch_high]
            unlimited = [variant.at_most is None for variant in fitting]
            if unlimited != [False] * (len(fitting) - 1) + [True]:
                message = f"for architecture {arch} there are {len(fitting)} variants,"
                message += f" {unlimited.count(True)} of them without limit"
                raise InvalidSchedule(schedule, kernel, message)


def check_shared_rows(schedule: Schedule) -> None:
    """Programs that share a row have equal parts of it, and a place for each state of each."""
    for kernel in schedule.kernels:
        for together in {programs(variant.tile) for variant in kernel.variants} - {1}:
            is_whole = known_multiple(kernel.axes[1].extent, together)
            rooms = {buffer.shape for buffer in kernel.exchange}
            walks = any(isinstance(member.operation, Scan) for member in kernel.members)
            if walks or not is_whole or rooms != {(kernel.axes[0].extent, Int.of(together))}:
                message = f"{together} programs cannot share its rows"
                raise InvalidSchedule(schedule, kernel, message)


CHECKS: tuple[Callable[[Schedule], None], ...] = (
    check_kernel_order,
    check_joined,
    check_stored_once,
    check_operations,
    check_binding_axes,
    check_binding_points,
    check_registers,
    check_strides,
    check_lifetimes,
    check_shared_storage,
    check_scatters,
    check_updates,
    check_variants,
    check_shared_rows,
)


# --- what the checks walk over -----------------------------------------------------------------


def _members(schedule: Schedule) -> Iterator[tuple[Kernel, Member]]:
    for kernel in schedule.kernels:
        for member in kernel.members:
            yield kernel, member


def _name(member: Member) -> str:
    return ", ".join(targets(member.operation))


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _walked(kernel: Kernel, member: Member) -> tuple[Axis, ...]:
    """The axes of the kernel whose points a member runs over."""
    anchor = kernel.anchor
    if anchor is not None:
        return all_axes(anchor) if member.operation is anchor else anchor.axes
    return kernel.axes[:1] if member.outer else kernel.axes


def _holds(writer: Member, reader: Member) -> bool:
    """False for a row's member that reads a value spread over the row."""
    return writer.outer or not reader.outer or isinstance(writer.operation, Reduction)


def _small(size: Var) -> int:
    """A size to try: a few steps of its multiple, within its range."""
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


def _is_dense(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> bool:
    """True when some order of the dimensions makes the strides row-major."""
    left = list(range(len(shape)))
    step = Int.of(1)
    while left:
        fitting = [dim for dim in left if strides[dim] is step]
        if not fitting:
            return False
        dim = min(fitting, key=lambda dim: shape[dim].constant != 1)
        left.remove(dim)
        step = step * shape[dim]
    return len(strides) == len(shape)


def _is_in_place(schedule: Schedule, kernel: Kernel, before: str, after: str) -> bool:
    """True when a kernel reads one buffer only where it writes the other, in elements as wide."""
    scatter = kernel.scatter
    if scatter is not None and (scatter.base, scatter.target) == (before, after):
        return True
    widths = {schedule.program.buffers[name].dtype.itemsize for name in (before, after)}
    touched = list(accesses(kernel))
    read = {a.offset(schedule.strides) for a in touched if a.buffer == before}
    written = {a.offset(schedule.strides) for a in touched if a.buffer == after}
    return read == written and len(widths) == 1


def _bytes(schedule: Schedule, name: str) -> Int:
    buffer = schedule.program.buffers[name]
    return product(buffer.shape) * buffer.dtype.itemsize
