"""Each launch's variants as sources.

Rows C:B14, F5, H2, H14, I3.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from aotpack.ir.integers import Int, ceil_div, product
from aotpack.ir.nodes import Attention, Matmul
from aotpack.ir.schedule import (
    AttentionTile,
    HostTile,
    Kernel,
    MatmulTile,
    PlaneTile,
    PointwiseTile,
    ReductionTile,
    Schedule,
    Tile,
    Variant,
    block_count,
    in_lines,
    launches,
)
from aotpack.render.attention import attention_context, attention_frame
from aotpack.render.c_contexts import AttentionContext as HostAttentionContext
from aotpack.render.c_contexts import FewContext
from aotpack.render.c_contexts import MatmulContext as HostMatmulContext
from aotpack.render.c_kernels import HostContext, host_context
from aotpack.render.combined import combined_choice
from aotpack.render.contexts import AttentionContext, LoopContext, MatmulContext
from aotpack.render.emitter import Frame
from aotpack.render.environment import render_template
from aotpack.render.loops import loop_context, loop_workshop
from aotpack.render.matmul import matmul_context, output_frame
from aotpack.render.regions import Region
from aotpack.render.sources import Alternatives, Choice, Nested, Sources, Step
from aotpack.render.workshop import Workshop
from aotpack.stages import KernelSource
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
    schedule: Schedule, targets: tuple[Target, ...]
) -> tuple[tuple[KernelSource, ...], tuple[Step, ...]]:
    """All sources, and for each launch of the schedule its choices for the given targets."""
    sources = Sources()
    found = _steps(schedule, targets, sources)
    return tuple(sources.known.values()), found


def _steps(schedule: Schedule, targets: tuple[Target, ...], sources: Sources) -> tuple[Step, ...]:
    return tuple(
        _alternatives(schedule, together, targets, sources)
        if together[0].control is None
        else Nested(together[0], tuple(_steps(p, targets, sources) for p in together[0].parts))
        for together in launches(schedule.kernels)
    )


def _alternatives(
    schedule: Schedule, kernels: tuple[Kernel, ...], targets: tuple[Target, ...], sources: Sources
) -> Alternatives:
    """One kernel's variants; or several kernels as one, and on a processor one by one."""

    def suited(kernel: Kernel, fits: Callable[[Target], bool]) -> tuple[Choice, ...]:
        return tuple(
            _choice(schedule, kernel, variant, sources)
            for variant in kernel.variants
            if any(fits(t) and variant.arch_low <= t.arch <= variant.arch_high for t in targets)
        )

    if len(kernels) == 1:
        return Alternatives(kernels, suited(kernels[0], lambda target: True))
    separate = (suited(kernel, lambda target: target.arch == 0) for kernel in kernels)
    hosted = tuple(choice for choices in separate for choice in choices)
    if all(target.arch == 0 for target in targets):
        return Alternatives(kernels, (), hosted)
    return Alternatives(kernels, (combined_choice(schedule, kernels, sources),), hosted)


def _choice(schedule: Schedule, kernel: Kernel, variant: Variant, sources: Sources) -> Choice:
    tile = variant.tile
    template, context, shop = _context(schedule, kernel, tile)
    name = sources.add(
        kernel.name,
        lambda name: render_template(template, _named(context, name)),
        shop.arguments.parameters(),
        variant,
        "c" if isinstance(tile, HostTile) else "triton",
    )
    return Choice(variant, name, _programs(kernel, tile), shop.arguments.names)


def _named(context: Context, name: str) -> Context:
    return context.named(name) if isinstance(context, HostContext) else replace(context, name=name)


def _context(schedule: Schedule, kernel: Kernel, tile: Tile) -> tuple[str, Context, Workshop]:
    if isinstance(tile, HostTile):
        return host_context(schedule, kernel, tile)
    if isinstance(tile, MatmulTile):
        shop = _workshop(schedule, kernel, output_frame(kernel, tile))
        return "kernel_matmul.py.jinja", matmul_context(schedule, kernel, tile, shop), shop
    if isinstance(tile, AttentionTile):
        shop = _workshop(schedule, kernel, attention_frame(kernel, tile))
        return "kernel_attention.py.jinja", attention_context(schedule, kernel, tile, shop), shop
    if isinstance(tile, PlaneTile):
        kernel = in_lines(kernel, tile.width)
    shop = loop_workshop(schedule, kernel, tile)
    return "kernel_loop.py.jinja", loop_context(schedule, kernel, tile, shop), shop


def _workshop(schedule: Schedule, kernel: Kernel, frame: Frame) -> Workshop:
    return Workshop(schedule, kernel, frame, Region(frozenset(frame.names)))


def _programs(kernel: Kernel, tile: Tile) -> Int:
    """The number of programs of a launch."""
    anchor = kernel.anchor
    if isinstance(tile, HostTile):
        return product(axis.extent for axis in (anchor.axes if anchor else kernel.axes[:1]))
    if isinstance(anchor, Matmul) and isinstance(tile, MatmulTile):
        tiles = ceil_div(anchor.m.extent, tile.m) * ceil_div(anchor.n.extent, tile.n)
        return tiles * product(axis.extent for axis in anchor.batch)
    if isinstance(anchor, Attention) and isinstance(tile, AttentionTile):
        return ceil_div(anchor.i.extent, tile.i) * anchor.batch.extent * anchor.head.extent
    if isinstance(tile, PlaneTile):
        lines = kernel.axes[0].extent // tile.width
        return ceil_div(lines, tile.y) * ceil_div(tile.width, tile.x)
    assert isinstance(tile, (PointwiseTile, ReductionTile))
    return block_count(kernel, tile)
