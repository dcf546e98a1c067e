"""Program to Schedule: kernels, their order, tiles and memory.

In reading order: ``passes`` (the list of passes), ``draft`` (the state they change), ``parts``
(branches and loops), ``bodies`` (of calls), ``program`` (program to program), ``sorts``,
``fusion``, ``layout`` (strides), ``interchange`` (order of loops), ``tiles``, ``launches`` (order
and sharing), ``memory`` (lifetimes and updates).
"""

from dataclasses import replace

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.kernel import ArchSchedule, Schedule, arch_range
from aotpack.ir.kernels.tiles import MAX_ARCH
from aotpack.ir.packs import Packs
from aotpack.ir.passes import AfterPass
from aotpack.schedule.draft import Draft, Passes, ScheduleOptions
from aotpack.schedule.launches.user_partition import Partition
from aotpack.schedule.layout import choose_strides
from aotpack.schedule.passes import PASSES
from aotpack.schedule.program.merge_products import in_memory_order
from aotpack.schedule.program.split.split_reduction import splits
from aotpack.schedule.program.sum_groups import sum_groups
from aotpack.schedule.program.weight_panels import lay_in_panels
from aotpack.schedule.program.weight_program import with_staged
from aotpack.schedule.tiles.row_pipeline import ROW_PIPELINE
from aotpack.schedule.tiles.row_residency import resident_rows
from aotpack.stages import Lowered, Scheduled
from aotpack.target import Target

__all__ = ["PASSES", "Partition", "schedule"]

HOST = 0  # the architecture of processors
RESIDENT = (
    ROW_PIPELINE,
    (ROW_PIPELINE[1] + 1, MAX_ARCH),
)  # ranges of architectures that may have resident rows


def schedule(
    lowered: Lowered,
    *,
    deterministic: bool = False,
    partition: Partition | None = None,
    offers_unfused: bool = False,
    targets: tuple[Target, ...] = (),
    gpu: Gpu = H200,
    state: frozenset[str] = frozenset(),
    packed: Packs = (),
    fp32_precision: str = "ieee",
    passes: Passes | None = None,
    after: AfterPass | None = None,
) -> Scheduled:
    """Schedule a program for these targets; without any, for all.

    ``deterministic``, ``partition``, ``offers_unfused``, ``gpu``, ``state``, ``packed`` and
    ``fp32_precision`` are those of ``ScheduleOptions``. With a partition all architectures have the
    same kernels, so it is called for no others. ``passes`` run in place of ``PASSES``; ``after`` is
    called after each.
    """
    is_host = bool(targets) and all(target.arch == HOST for target in targets)
    options = ScheduleOptions(
        deterministic, partition, offers_unfused, gpu, is_host, state, packed, fp32_precision
    )
    draft = Draft(lowered.program, options=options, passes=passes or PASSES, after=after).prepared()
    result = draft.planned()
    if _splits_by_layout(draft, result):
        draft = replace(draft, expected=result.strides)
        result = draft.planned()
    own = _arch_schedules(draft, result, targets) if partition is None else ()
    if own and targets and all(any(one.takes(t.arch) for one in own) for t in targets):
        *others, last = own  # no target takes the general one
        own, result = tuple(others), last.schedule
    schedules = (result, *(one.schedule for one in own))
    used = {packed.name for schedule in schedules for packed in schedule.program.packed}
    packs = (packed for packed in draft.program.packed if packed.name in used)
    weights = with_staged(in_memory_order(lowered.weights, tuple(packs)), schedules)
    return Scheduled(lowered.signature, weights, lowered.golden, result, own)


def _splits_by_layout(draft: Draft, planned: Schedule) -> bool:
    """True when reductions are split otherwise, knowing the strides of a plan."""
    if draft.options.is_host:
        return False
    program, gpu = draft.program, draft.options.gpu
    return splits(program, gpu) != splits(program, gpu, expected=planned.strides)


def _arch_schedules(
    draft: Draft, general: Schedule, targets: tuple[Target, ...]
) -> tuple[ArchSchedule, ...]:
    """The schedules of processors, and of architectures whose resident rows are split on others."""
    found: list[ArchSchedule] = []
    for low, high, resident in _resident(draft, targets):
        one = replace(draft, resident=resident, arches=arch_range(low, high))
        found.append(ArchSchedule(low, high, one.planned()))
    return (*_host_schedule(draft, general, targets), *found)


def _host_schedule(
    draft: Draft, general: Schedule, targets: tuple[Target, ...]
) -> tuple[ArchSchedule, ...]:
    """The schedule of processors, where they share a package with GPUs and differ in layouts."""
    made = general.program, general.kernels
    is_shared = not targets or any(target.arch == HOST for target in targets)
    if draft.options.is_host or not is_shared:
        return ()
    is_laid_out_alike = choose_strides(*made) == choose_strides(*made, is_host=True)
    has_pairs = any(kernel.products and len(kernel.sums) > 1 for kernel in general.kernels)
    is_planned_alike = not draft.expected and not has_pairs
    is_planned_alike = is_planned_alike and sum_groups(draft.program) is draft.program
    split = [splits(draft.program, draft.options.gpu, is_host=one) for one in (True, False)]
    is_planned_alike = is_planned_alike and split[0] == split[1]
    program, state = draft.program, draft.options.state
    if is_laid_out_alike and is_planned_alike and lay_in_panels(program, state) is program:
        return ()
    options = replace(draft.options, is_host=True)
    own = replace(draft, options=options, arches="cpu", expected={})
    return (ArchSchedule(HOST, HOST, own.planned()),)


def _resident(draft: Draft, targets: tuple[Target, ...]) -> list[tuple[int, int, frozenset[str]]]:
    """Ranges of architectures with their resident rows; equal neighbours are merged."""
    arches = [target.arch for target in targets]
    ranges = [(a, b) for a, b in RESIDENT if not arches or any(a <= n <= b for n in arches)]
    lowest = tuple(low for low, _ in ranges)
    kept = resident_rows(draft.program, lowest, draft.options.gpu, draft.expected)
    found: list[tuple[int, int, frozenset[str]]] = []
    for (low, high), rows in zip(ranges, kept, strict=True):
        if found and found[-1][2] == rows:
            low = found.pop()[0]
        found.append((low, high, rows))
    return [one for one in found if one[2]]
