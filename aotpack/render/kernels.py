"""Launches -> sources: a source for each variant and form of a launch."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

from aotpack.devices import HOPPER
from aotpack.ir.foreign import TorchOperator
from aotpack.ir.kernels.kernel import Kernel, Schedule, gpu_variants, launches
from aotpack.ir.kernels.tiles import MAX_ARCH, MatmulTile, ReductionTile, Tile, Variant
from aotpack.ir.program import Call
from aotpack.render.emit.language import Language, RenderedKernel, SharedLaunchRenderer
from aotpack.render.foreign import called_choice, launch_forms, refuse_foreign
from aotpack.render.forms import Form, FormSelector
from aotpack.render.languages import language_of
from aotpack.render.sources import (
    Alternatives,
    Choice,
    Launched,
    LaunchPlan,
    Nested,
    Ranges,
    Sources,
    Step,
)
from aotpack.stages import Decisions, KernelSource, Scheduled
from aotpack.target import Target


def render_kernels(
    scheduled: Scheduled, targets: tuple[Target, ...], decisions: Decisions
) -> tuple[tuple[KernelSource, ...], tuple[LaunchPlan, ...], FormSelector]:
    """All sources, a plan for each schedule that some target takes, and the form selector.

    The launches of a plan have choices for the plan's targets.
    """
    refuse_foreign(scheduled.schedule, targets)
    selector = FormSelector(Sources(), decisions)
    plans = []
    for schedule, arches in _for_architectures(scheduled):
        own = tuple(target for target in targets if scheduled.on(target.arch) is schedule)
        if own or (schedule is scheduled.schedule and not targets):
            selector.sources.within = arches
            steps = _Steps(own, selector)(schedule, is_part=False, is_whole=True)
            plans.append(LaunchPlan(schedule, steps, own, _weights(schedule, own, selector)))
    return tuple(selector.sources.known.values()), tuple(plans), selector


def _weights(
    schedule: Schedule, targets: tuple[Target, ...], selector: FormSelector
) -> LaunchPlan | None:
    """The launches of the weight program, each in its first form."""
    made = schedule.weights
    if made is None:
        return None
    return LaunchPlan(made, _Steps(targets, selector)(made, is_part=True), targets)


def _for_architectures(scheduled: Scheduled) -> Iterator[tuple[Schedule, Ranges]]:
    """The schedules with their architectures; the schedule for all others comes last."""
    start = 0
    others: Ranges = ()
    for own in scheduled.per_arch:
        yield own.schedule, ((own.arch_low, own.arch_high),)
        others += ((start, own.arch_low - 1),)
        start = own.arch_high + 1
    others += ((start, MAX_ARCH),)
    yield scheduled.schedule, tuple((low, high) for low, high in others if low <= high)


class _Steps:
    """The launches of schedules; the body of several calls has its own once."""

    def __init__(self, targets: tuple[Target, ...], selector: FormSelector) -> None:
        self._targets, self._selector = targets, selector
        self._bodies: dict[int, tuple[Step, ...]] = {}

    def __call__(
        self, schedule: Schedule, *, is_part: bool, is_whole: bool = False
    ) -> tuple[Step, ...]:
        """The launches; a launch inside a branch or loop has its first form only.

        One of a ``whole`` program may be followed by a launch of another call.
        """
        forms, steps, selector = 1 if is_part else None, list[Step](), self._selector
        streamed, every = _streamed(schedule), launches(schedule.kernels)
        for together, after in zip_longest(every, every[1:]):
            kernel = together[0]
            if isinstance(kernel.control, Call):
                steps.append(Nested(kernel, (self._of_body(kernel.parts[0], is_part=is_part),)))
                continue
            if kernel.control is not None:
                steps.append(self._nested(schedule, kernel))
                continue
            stored = {name for kernel in together for name in kernel.stored}
            selector.sources.streamed_after = not streamed.isdisjoint(stored)
            selector.sources.filled_after = is_whole if after is None else _fills(after)
            steps.append(_alternatives(schedule, together, self._targets, selector, forms))
        selector.sources.streamed_after = selector.sources.filled_after = False
        return tuple(steps)

    def _nested(self, schedule: Schedule, kernel: Kernel) -> Nested:
        """A branch or loop; one that is held has its turns in one launch, its entry before that."""
        found = _alternatives(schedule, (kernel,), self._targets, self._selector, 1)
        if not found.choices:
            return Nested(kernel, tuple(self(part, is_part=True) for part in kernel.parts))
        sources, (entry, body) = self._selector.sources, kernel.parts
        around, first = sources.within, self(entry, is_part=True)
        for variant in (one for one in kernel.variants if one.takes_everything):
            sources.within = _without(sources.within, variant)
        is_held = not any(
            low <= t.arch <= high for low, high in sources.within for t in self._targets
        )
        turns = () if is_held else self(body, is_part=True)
        sources.within = around
        return Nested(kernel, (first, turns), found.choices, is_held)

    def _of_body(self, body: Schedule, *, is_part: bool) -> tuple[Step, ...]:
        if id(body) not in self._bodies:
            self._bodies[id(body)] = self(body, is_part=is_part)
        return self._bodies[id(body)]


def _without(ranges: Ranges, variant: Variant) -> Ranges:
    """Architectures that a variant is not for."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        found += [(low, min(high, variant.arch_low - 1)), (max(low, variant.arch_high + 1), high)]
    return tuple((low, high) for low, high in found if low <= high)


def _fills(together: tuple[Kernel, ...]) -> bool:
    """True for a launch whose programs, each with roles of warps, take a multiprocessor each."""
    tiles = [v.tile for kernel in together for v in kernel.variants if v.takes(HOPPER)]
    return bool(tiles) and all(isinstance(tile, MatmulTile) and tile.roles for tile in tiles)


def _streamed(schedule: Schedule) -> set[str]:
    """What kernels read that begin with reads of weights."""
    return {
        name
        for kernel in schedule.kernels
        if any(isinstance(v.tile, MatmulTile) and v.tile.weights_first for v in kernel.variants)
        for name in kernel.reads
    }


def _alternatives(
    schedule: Schedule,
    kernels: tuple[Kernel, ...],
    targets: tuple[Target, ...],
    selector: FormSelector,
    most: int | None,
) -> Alternatives:
    """The choices of one kernel; or of several in one launch, with separate ones for a processor.

    Each variant has at most ``most`` forms (None: any number).
    """

    def suited(kernel: Kernel, targets: Iterable[Target]) -> tuple[Choice, ...]:
        return tuple(
            choice
            for variant in kernel.variants
            if (admitting := _admitting(variant, targets))
            for choice in selector.choices(
                variant, _forms(schedule, kernel, variant)[:most], admitting
            )
        )

    if kernels[0].foreign is not None:
        return Alternatives(kernels, _foreign(schedule, kernels[0], targets, selector, most))
    if len(kernels) == 1:
        return Alternatives(kernels, suited(kernels[0], targets))
    hosts = [target for target in targets if target.arch == 0]
    gpus = [target for target in targets if target.arch > 0]
    hosted = tuple(choice for kernel in kernels for choice in suited(kernel, hosts))
    together = _together(schedule, kernels, gpus, selector, most) if gpus else ()
    return Alternatives(kernels, tuple(together), hosted)


def _foreign(
    schedule: Schedule,
    kernel: Kernel,
    targets: tuple[Target, ...],
    selector: FormSelector,
    most: int | None,
) -> tuple[Choice, ...]:
    """The only choice of a call of torch; those of a user's kernel by its configurations."""
    call = kernel.foreign
    assert call is not None
    if isinstance(call.kernel, TorchOperator):
        return (called_choice(schedule, kernel, selector.sources),)
    variant, forms = launch_forms(schedule, kernel)
    return selector.choices(variant, forms[:most], _admitting(variant, targets))


def _together(
    schedule: Schedule,
    kernels: tuple[Kernel, ...],
    gpus: list[Target],
    selector: FormSelector,
    most: int | None,
) -> Iterator[Choice]:
    """The choices of a GPU for kernels of one launch; the variants are the first kernel's."""
    for variants in zip(*map(gpu_variants, kernels), strict=True):
        forms = (_last_block_forms if kernels[1].runs_in_last_block else _horizontal_forms)(
            schedule, kernels, variants
        )
        if admitting := _admitting(variants[0], gpus):
            yield from selector.choices(variants[0], forms[:most], admitting)


def _horizontal_forms(
    schedule: Schedule, kernels: tuple[Kernel, ...], variants: tuple[Variant, ...]
) -> tuple[Form, ...]:
    """One launch of all kernels, then a launch of each."""
    pairs = list(zip(kernels, variants, strict=True))
    tiles = tuple(variant.tile for variant in variants)
    language = language_of(tiles[0])

    def apart(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        return tuple(
            _launched(schedule, kernel, variant.others[0], own, sources)
            for kernel, variant in pairs
        )

    return (*_shared(language, language.horizontal, schedule, kernels, tiles), apart)


def _shared(
    language: Language,
    renderer: SharedLaunchRenderer | None,
    schedule: Schedule,
    kernels: tuple[Kernel, ...],
    tiles: tuple[Tile, ...],
) -> tuple[Form, ...]:
    """The form in which all kernels are one, if the language has it."""
    if renderer is None:
        return ()

    def shared(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        made = renderer(schedule, kernels, tiles, own.divisibility)
        return (_added(made, own, language, sources),)

    return (shared,)


def _admitting(variant: Variant, targets: Iterable[Target]) -> list[Target]:
    return [target for target in targets if variant.takes(target.arch)]


def _forms(schedule: Schedule, kernel: Kernel, variant: Variant) -> tuple[Form, ...]:
    """A launch for each tile of a variant; the unfused kernel comes after the two best guesses."""

    def form(tile: Tile) -> Form:
        return lambda own, sources: (_launched(schedule, kernel, tile, own, sources),)

    def parts(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        return tuple(
            _launched(
                schedule,
                part,
                own.tile if part.template_op else _plain_tile(part, own),
                own,
                sources,
            )
            for part in kernel.unfused
        )

    best, others = variant.tiles[:2], variant.tiles[2:]
    return (*map(form, best), *((parts,) if kernel.unfused else ()), *map(form, others))


def _last_block_forms(
    schedule: Schedule, kernels: tuple[Kernel, ...], variants: tuple[Variant, ...]
) -> tuple[Form, ...]:
    """One launch for each tile of the first kernel that fits the others' tiles; then several."""
    walk, *closing = variants
    closes = [one.tile for one in closing if isinstance(one.tile, ReductionTile)]

    language = language_of(walk.tile)

    def shared(tile: ReductionTile) -> tuple[Form, ...]:
        tiles = tile, *(replace(close, num_warps=tile.num_warps) for close in closes)
        return _shared(language, language.last_block, schedule, kernels, tiles)

    def separate(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        tiles = walk.tile, *(one.others[0] for one in closing)
        pairs = zip(kernels, tiles, strict=True)
        return tuple(_launched(schedule, *pair, own, sources) for pair in pairs)

    tiles = [t for t in walk.tiles if isinstance(t, ReductionTile) and t.x == closes[0].x]
    return (*(form for tile in tiles for form in shared(tile)), separate)


def _plain_tile(kernel: Kernel, own: Variant) -> Tile:
    """The tile that takes all sizes, for the architectures of another kernel's variant."""
    return next(
        variant.tile
        for variant in kernel.variants
        if variant.takes_everything and variant.takes(own.arch_low)
    )


def _launched(
    schedule: Schedule, kernel: Kernel, tile: Tile, own: Variant, sources: Sources
) -> Launched:
    """A kernel with a tile; ``own`` says for which architectures."""
    language = language_of(tile)
    return _added(language.render(schedule, kernel, tile, own.divisibility), own, language, sources)


def _added(kernel: RenderedKernel, own: Variant, language: Language, sources: Sources) -> Launched:
    return Launched(sources.add(kernel, own, language), kernel.programs, kernel.arguments)
