"""Program -> Schedule: what is stored, what shares a kernel, in which order, tiles and memory.

``passes.py`` has the list of passes; each is a function of its own file.
"""

from dataclasses import replace

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.kernel import ArchSchedule, arch_range
from aotpack.ir.kernels.tiles import MAX_ARCH
from aotpack.ir.passes import AfterPass
from aotpack.schedule.draft import Draft, Options, Passes
from aotpack.schedule.launches.user_partition import Partition
from aotpack.schedule.passes import PASSES
from aotpack.schedule.program.merge_products import in_memory_order
from aotpack.schedule.tiles.row_pipeline import ROW_PIPELINE
from aotpack.schedule.tiles.row_residency import resident_rows
from aotpack.stages import Lowered, Scheduled
from aotpack.target import Target

__all__ = ["PASSES", "Partition", "schedule"]

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
    passes: Passes | None = None,
    after: AfterPass | None = None,
) -> Scheduled:
    """Decide everything about kernels but their text, for these targets; without any, for all.

    ``deterministic``, ``partition``, ``in_parts`` and ``gpu`` are those of ``Options``. With a
    partition all architectures have the same kernels, so that it is asked about no others.
    ``passes`` run in place of ``PASSES``; ``after`` is told of each.
    """
    options = Options(deterministic, partition, in_parts, gpu)
    draft = Draft(lowered.program, options=options, passes=passes or PASSES, after=after).prepared()
    result = draft.planned()
    own = _arch_schedules(draft, targets) if partition is None else ()
    if own and targets and all(any(one.takes(t.arch) for one in own) for t in targets):
        *others, last = own  # nobody takes the general one
        own, result = tuple(others), last.schedule
    weights = in_memory_order(lowered.weights, draft.program.packed)
    return Scheduled(lowered.signature, weights, lowered.golden, result, own)


def _arch_schedules(draft: Draft, targets: tuple[Target, ...]) -> tuple[ArchSchedule, ...]:
    """Schedules for architectures that hold rows which are split on others."""
    found: list[ArchSchedule] = []
    for low, high, resident in _resident(draft, targets):
        one = replace(draft, resident=resident, arches=arch_range(low, high))
        found.append(ArchSchedule(low, high, one.planned()))
    return tuple(found)


def _resident(draft: Draft, targets: tuple[Target, ...]) -> list[tuple[int, int, frozenset[str]]]:
    """Ranges of architectures with the rows that stay whole there; neighbours that differ."""
    arches = [target.arch for target in targets]
    ranges = [(a, b) for a, b in RESIDENT if not arches or any(a <= n <= b for n in arches)]
    kept = resident_rows(draft.program, tuple(low for low, _ in ranges), draft.options.gpu)
    found: list[tuple[int, int, frozenset[str]]] = []
    for (low, high), rows in zip(ranges, kept, strict=True):
        if found and found[-1][2] == rows:
            low = found.pop()[0]
        found.append((low, high, rows))
    return [one for one in found if one[2]]
