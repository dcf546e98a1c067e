"""Launches -> sources: a source for each variant and form of a launch."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import (
    Kernel,
    Schedule,
    block_count,
    gpu_variants,
    launches,
    unflattened,
)
from aotpack.ir.kernels.tiles import (
    MAX_ARCH,
    AttentionTile,
    HostTile,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Tile,
    Tile2D,
    Variant,
)
from aotpack.ir.kernels.traffic import work_of
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.symbolic.integers import Int, ceil_div, minimum
from aotpack.render.c.contexts import AttentionContext as HostAttentionContext
from aotpack.render.c.contexts import FewContext
from aotpack.render.c.contexts import MatmulContext as HostMatmulContext
from aotpack.render.c.kernels import HostContext, host_context
from aotpack.render.contexts import AttentionContext, LoopContext, MatmulContext
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_template
from aotpack.render.foreign import foreign_choice, refuse_foreign
from aotpack.render.forms import Form, FormSelector
from aotpack.render.horizontal import horizontal_launch
from aotpack.render.last_block import last_block_launch
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
from aotpack.render.triton.attention import attention_context, attention_frame
from aotpack.render.triton.dialect import TRITON
from aotpack.render.triton.loops.loops import loop_kernel
from aotpack.render.triton.matmul import matmul_context, output_frame
from aotpack.stages import Decisions, KernelSource, Scheduled
from aotpack.target import Target

Context: TypeAlias = (
    LoopContext
    | MatmulContext
    | AttentionContext
    | HostContext
    | HostMatmulContext
    | FewContext
    | HostAttentionContext
)


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
            steps = _steps(schedule, own, selector, is_part=False)
            plans.append(LaunchPlan(schedule, steps, own))
    return tuple(selector.sources.known.values()), tuple(plans), selector


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


def _steps(
    schedule: Schedule, targets: tuple[Target, ...], selector: FormSelector, *, is_part: bool
) -> tuple[Step, ...]:
    """The launches; a launch inside a branch or loop has its first form only."""
    forms = 1 if is_part else None
    return tuple(
        _alternatives(schedule, together, targets, selector, forms)
        if together[0].control is None
        else Nested(
            together[0],
            tuple(_steps(part, targets, selector, is_part=True) for part in together[0].parts),
        )
        for together in launches(schedule.kernels)
    )


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
        return Alternatives(kernels, (foreign_choice(schedule, kernels[0], selector.sources),))
    if len(kernels) == 1:
        return Alternatives(kernels, suited(kernels[0], targets))
    hosts = [target for target in targets if target.arch == 0]
    gpus = [target for target in targets if target.arch > 0]
    hosted = tuple(choice for kernel in kernels for choice in suited(kernel, hosts))
    together = _together(schedule, kernels, gpus, selector, most) if gpus else ()
    return Alternatives(kernels, tuple(together), hosted)


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
    return (
        lambda own, sources: (horizontal_launch(schedule, kernels, own, sources),),
        lambda own, sources: tuple(
            _launched(schedule, kernel, variant.others[0], own, sources)
            for kernel, variant in pairs
        ),
    )


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

    def form(tile: ReductionTile) -> Form:
        tiles = tile, *(replace(close, num_warps=tile.num_warps) for close in closes)
        return lambda own, sources: (last_block_launch(schedule, kernels, tiles, own, sources),)

    def separate(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        tiles = walk.tile, *(one.others[0] for one in closing)
        pairs = zip(kernels, tiles, strict=True)
        return tuple(_launched(schedule, *pair, own, sources) for pair in pairs)

    tiles = [t for t in walk.tiles if isinstance(t, ReductionTile) and t.x == closes[0].x]
    return (*map(form, tiles), separate)


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
    """A kernel with a tile, for the architectures of ``own``."""
    template, context, builder, ring_bytes = _context(schedule, kernel, tile)
    programs = _programs(kernel, tile)
    name = sources.add(
        kernel.name,
        lambda name: render_template(template, _named(context, name)),
        builder.arguments.parameters(dict(own.divisibility)),
        tile,
        own,
        "c" if isinstance(tile, HostTile) else "triton",
        work_of(kernel, schedule.program),
        programs,
        ring_bytes,
    )
    return Launched(name, programs, builder.arguments.names)


def _named(context: Context, name: str) -> Context:
    return context.named(name) if isinstance(context, HostContext) else replace(context, name=name)


def _context(
    schedule: Schedule, kernel: Kernel, tile: Tile
) -> tuple[str, Context, KernelBuilder, int]:
    """The template, its context without the name, the builder, and the bytes of the ring."""
    if isinstance(tile, HostTile):
        return *host_context(schedule, kernel, tile), 0
    if isinstance(tile, MatmulTile):
        builder = _builder(schedule, kernel, output_frame(kernel, tile))
        return "kernel_matmul.py.jinja", matmul_context(schedule, kernel, tile, builder), builder, 0
    if isinstance(tile, AttentionTile):
        builder = _builder(schedule, kernel, attention_frame(kernel, tile))
        context = attention_context(schedule, kernel, tile, builder)
        return "kernel_attention.py.jinja", context, builder, 0
    if isinstance(tile, Tile2D):
        kernel = unflattened(kernel, tile.width, tile.height)
    made = loop_kernel(schedule, kernel, tile)
    return "kernel_loop.py.jinja", made.context, made.builder, made.ring_bytes


def _builder(schedule: Schedule, kernel: Kernel, frame: Frame) -> KernelBuilder:
    return KernelBuilder(schedule, kernel, frame, Region(frozenset(frame.names)), TRITON)


def _programs(kernel: Kernel, tile: Tile) -> Int:
    """The number of programs of a launch."""
    template_op = kernel.template_op
    if isinstance(tile, HostTile):
        return points(template_op.axes if template_op else kernel.axes[:1])
    if isinstance(template_op, Matmul) and isinstance(tile, MatmulTile):
        tiles = ceil_div(template_op.m.extent, tile.m) * ceil_div(template_op.n.extent, tile.n)
        tiles = tiles * points(template_op.batch)
        return minimum(tiles, tile.most_programs) if tile.most_programs else tiles
    if isinstance(template_op, Attention) and isinstance(tile, AttentionTile):
        return (
            ceil_div(template_op.i.extent, tile.i)
            * template_op.batch.extent
            * template_op.head.extent
        )
    if isinstance(tile, Tile2D):
        lines, across = kernel.axes[0].extent // tile.width, ceil_div(tile.width, tile.x)
        if tile.height is None:
            return ceil_div(lines, tile.y) * across
        planes = ceil_div(lines // tile.height, tile.z)
        return planes * ceil_div(tile.height, tile.y) * across
    assert isinstance(tile, (PointwiseTile, ReductionTile))
    blocks = block_count(kernel, tile)
    resident = tile.resident if isinstance(tile, ReductionTile) else 0
    return minimum(blocks, resident) if resident else blocks
