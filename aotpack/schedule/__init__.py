"""Program -> Schedule: what is stored, what shares a kernel, in which order, tiles and memory.

The passes run in the order of ``_prepared`` and ``_planned``; each is a file of its own name.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.kernel import ArchSchedule, Kernel, Schedule
from aotpack.ir.kernels.tiles import MAX_ARCH
from aotpack.ir.program import Branch, Loop, Operation, Program
from aotpack.schedule.fusion.concat_in_place import concat_in_place
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.rounding import match_rounding
from aotpack.schedule.launches.horizontal import combine
from aotpack.schedule.launches.last_block import complete
from aotpack.schedule.launches.order import order
from aotpack.schedule.launches.peak import least_peak
from aotpack.schedule.launches.unfused import with_unfused
from aotpack.schedule.launches.user_partition import Partition
from aotpack.schedule.layout import choose_strides
from aotpack.schedule.memory.in_place_updates import place_updates
from aotpack.schedule.memory.lifetimes import plan_memory
from aotpack.schedule.memory.scan_exchange import declare_exchanges
from aotpack.schedule.program.causal_mask import recognise_causal_masks
from aotpack.schedule.program.dead_code import remove_dead_code
from aotpack.schedule.program.fixed_order import fix_order
from aotpack.schedule.program.gelu import recognise_gelu
from aotpack.schedule.program.insert_copies import insert_copies
from aotpack.schedule.program.merge_products import in_memory_order, merge_products
from aotpack.schedule.program.online_softmax import merge_softmax_sums
from aotpack.schedule.program.realize import realize
from aotpack.schedule.program.split_reduction import split_reductions
from aotpack.schedule.sorts.expand_sorts import expand_sorts
from aotpack.schedule.tiles.choose import choose_tiles, one_tile_for_all_sizes
from aotpack.schedule.tiles.padding import pad_strides
from aotpack.schedule.tiles.row_pipeline import ROW_PIPELINE
from aotpack.schedule.tiles.row_residency import resident_rows
from aotpack.stages import Lowered, Scheduled
from aotpack.target import Target

__all__ = ["Partition", "schedule"]

_Parts: TypeAlias = dict[Operation, tuple[Schedule, ...]]
RESIDENT = (
    ROW_PIPELINE,
    (ROW_PIPELINE[1] + 1, MAX_ARCH),
)  # architectures that may hold rows, alike in each


def schedule(
    lowered: Lowered,
    *,
    deterministic: bool = False,
    partition: Partition | None = None,
    in_parts: bool = False,
    targets: tuple[Target, ...] = (),
    gpu: Gpu = H200,
) -> Scheduled:
    """Decide everything about kernels but their text, for these targets; without any, for all.

    ``deterministic``: equal inputs give equal bits in every run, and each row of a batch the bits
    it has in any other batch. ``partition`` says which kernels share a launch; then
    all architectures have the same kernels, so that it is asked about no others.
    ``in_parts`` adds another form of launches, for tuning to time (``unfused``).
    The thresholds are those of ``gpu``, on all architectures but those that have their own.
    """
    rules = Rules(deterministic, partition, gpu)
    program, parts = _prepared(lowered.program, rules)
    result = _planned(program, parts, rules)
    own = _arch_schedules(program, parts, rules, targets) if partition is None else ()
    if own and targets and all(any(one.takes(t.arch) for one in own) for t in targets):
        *others, last = own  # nobody takes the general one
        own, result = tuple(others), last.schedule
    if in_parts:
        result = with_unfused(result, gpu)
        own = tuple(replace(one, schedule=with_unfused(one.schedule, gpu)) for one in own)
    weights = in_memory_order(lowered.weights, program.packed)
    return Scheduled(lowered.signature, weights, lowered.golden, result, own)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the caller of ``schedule`` asks for."""

    deterministic: bool
    partition: Partition | None
    gpu: Gpu


def _arch_schedules(
    program: Program, parts: _Parts, rules: Rules, targets: tuple[Target, ...]
) -> tuple[ArchSchedule, ...]:
    """Schedules for architectures that hold rows which are split on others."""
    arches = [target.arch for target in targets]
    ranges = [(a, b) for a, b in RESIDENT if not arches or any(a <= n <= b for n in arches)]
    held = resident_rows(program, tuple(low for low, _ in ranges), rules.gpu)
    found: list[ArchSchedule] = []
    before: frozenset[str] = frozenset()
    for (low, high), whole in zip(ranges, held, strict=True):
        if whole and whole == before:
            found[-1] = replace(found[-1], arch_high=high)
        elif whole:
            found.append(ArchSchedule(low, high, _planned(program, parts, rules, whole)))
        before = whole
    return tuple(found)


def _prepared(program: Program, rules: Rules) -> tuple[Program, _Parts]:
    """The passes that are the same for all architectures, and the schedules of parts."""
    program = remove_dead_code(program)
    program, parts = _schedule_parts(program, rules)
    if rules.deterministic:
        program = fix_order(program)
    program = insert_copies(program)
    program = merge_products(program)
    program = realize(program)
    program = recognise_gelu(program)
    program = recognise_causal_masks(program)
    program = merge_softmax_sums(program, rules.gpu)
    return expand_sorts(program, rules.gpu), parts


def _planned(
    program: Program, parts: _Parts, rules: Rules, held: frozenset[str] = frozenset()
) -> Schedule:
    """The other passes; the rows of reductions to the targets ``held`` are not split."""
    program = split_reductions(program, rules.gpu, held)
    program = remove_dead_code(program)
    program, kernels = concat_in_place(program, fuse(program), rules.gpu)
    program, kernels = match_rounding(program, order(kernels, program))
    kernels = _with_parts(kernels, parts)
    strides = pad_strides(program, kernels, choose_strides(program, kernels))
    kernels = choose_tiles(program, kernels, strides, rules.gpu)
    kernels = one_tile_for_all_sizes(kernels) if rules.deterministic else kernels
    kernels = least_peak(program, kernels, strides)
    program, kernels, strides = place_updates(program, kernels, strides, rules.gpu)
    if rules.partition is None:
        kernels = complete(program, kernels, rules.gpu)
    kernels = combine(kernels, program, rules.gpu, rules.partition)
    kernels = declare_exchanges(program, kernels)
    lifetimes = plan_memory(program, kernels, strides)
    return Schedule(program, kernels, strides, lifetimes)


def _schedule_parts(program: Program, rules: Rules) -> tuple[Program, _Parts]:
    """The program with scheduled parts, and the schedules of each operation's.

    A part of a branch or loop is a program of its own, with one schedule for all architectures.
    """
    parts: _Parts = {}
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, (Branch, Loop)):
            prepared = (_prepared(part, rules) for part in operation.parts)
            made = tuple(_planned(*part, rules) for part in prepared)
            operation = operation.with_parts(tuple(part.program for part in made))
            parts[operation] = made
        operations.append(operation)
    return (replace(program, operations=tuple(operations)) if parts else program), parts


def _with_parts(kernels: tuple[Kernel, ...], parts: _Parts) -> tuple[Kernel, ...]:
    return tuple(
        replace(kernel, parts=parts[kernel.control]) if kernel.control is not None else kernel
        for kernel in kernels
    )
