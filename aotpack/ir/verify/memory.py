"""The legality of a schedule's memory: strides, lifetimes, and what shares a place."""

from itertools import pairwise

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import accesses, in_order
from aotpack.ir.kernels.kernel import Kernel, Lifetime, Schedule, launches
from aotpack.ir.kernels.rows import has_legal_strides, storage_bytes
from aotpack.ir.program import (
    concats_by_part,
    in_place_pairs,
    loads,
    read_whole,
    reads,
)
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.tiles import InvalidSchedule, listed


def check_strides(schedule: Schedule) -> None:
    """Strides are dense, or pad rows by less than a cache line.

    Inputs, weights, outputs and the tensors of calls are row-major or in their buffer's order;
    what the weight program makes is laid out as its readers say.
    """
    program = schedule.program
    fixed = {*program.inputs, *program.weights, *program.results} - {*program.derived}
    for operation in program.operations:
        if isinstance(operation, Foreign):
            fixed |= {*reads(operation), *operation.targets}
    for name, buffer in program.buffers.items():
        strides = schedule.strides.get(name)
        if strides is None or not has_legal_strides(buffer, strides):
            shown = "none" if strides is None else listed(strides)
            raise InvalidSchedule(schedule, None, f"{buffer} has the strides {shown}")
        wanted = in_order(buffer.shape, buffer.order)
        if name in fixed and strides != schedule.given.get(name, wanted):
            raise InvalidSchedule(schedule, None, f"{buffer} is not contiguous: {listed(strides)}")


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
            launch = launches(schedule.kernels)[after.first]
            if before.last > after.first or before.first == after.first:
                message = f"{before.buffer} and {after.buffer} live in {storage} at once"
                raise InvalidSchedule(schedule, launch[0], message)
            names = (before.buffer, after.buffer)
            kernel, *others = [k for k in launch if not {*k.reads, *k.stored}.isdisjoint(names)]
            meet = before.last == after.first
            if meet and (others or not _is_in_place(schedule, kernel, *names)):
                message = f"{after.buffer} overwrites other elements of {before.buffer}"
                raise InvalidSchedule(schedule, kernel, message)
        for life in lives:
            if not known_equal(_bytes(schedule, life.buffer), _bytes(schedule, storage)):
                raise InvalidSchedule(schedule, None, f"{life.buffer} does not fit {storage}")


def check_bases(schedule: Schedule) -> None:
    """An operation that overwrites a base is alone in its kernel, with the base's strides.

    Other readers of the base run in earlier launches.
    """
    homes = {life.buffer: life.storage for life in schedule.lifetimes}
    homes |= {name: name for name in schedule.program.outputs}
    for update in schedule.program.updates:
        homes |= {update.name: update.name, update.value: update.name}
    bases: set[str] = set()
    steps = [(n, k) for n, together in enumerate(launches(schedule.kernels)) for k in together]
    for step, kernel, member in ((n, k, member) for n, k in steps for member in k.members):
        operation = member.operation
        for target, base in in_place_pairs(operation):
            bases.add(base)
            others = (k is not kernel for n, k in steps if n >= step and base in k.reads)
            is_read = any(others) or any(load.buffer == base for load in loads(operation))
            is_read |= read_whole(operation).count(base) > 1
            if len(kernel.members) > 1 or is_read:
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
