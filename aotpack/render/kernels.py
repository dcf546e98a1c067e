"""Each kernel's variants as sources; equal text (comments aside) is one source with one name."""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias

from aotpack.ir.integers import Axis, Int, ceil_div, product
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
    in_lines,
)
from aotpack.render.attention import attention_context, attention_frame
from aotpack.render.c_contexts import AttentionContext as HostAttentionContext
from aotpack.render.c_contexts import FewContext
from aotpack.render.c_contexts import MatmulContext as HostMatmulContext
from aotpack.render.c_kernels import HostContext, host_context
from aotpack.render.contexts import AttentionContext, LoopContext, MatmulContext
from aotpack.render.emitter import Frame
from aotpack.render.environment import render_template
from aotpack.render.loops import LoopTile, loop_context, loop_frame
from aotpack.render.matmul import matmul_context, output_frame
from aotpack.render.regions import Region
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


@dataclass(frozen=True, slots=True)
class Choice:
    """A variant a launch may take: when, which kernel, how many programs, with which arguments."""

    variant: Variant
    kernel: str
    programs: Int
    arguments: tuple[str, ...]  # buffers, then sizes, in the order of the source's parameters


def render_kernels(
    schedule: Schedule, targets: tuple[Target, ...]
) -> tuple[tuple[KernelSource, ...], tuple[tuple[Choice, ...], ...]]:
    """All sources, and for each kernel of the schedule its choices for the given targets."""
    known: dict[str, KernelSource] = {}
    choices = tuple(
        tuple(
            _choice(schedule, kernel, variant, known)
            for variant in kernel.variants
            if any(variant.arch_low <= target.arch <= variant.arch_high for target in targets)
        )
        for kernel in schedule.kernels
    )
    return tuple(known.values()), choices


def _also_for(source: KernelSource, arches: tuple[int, int]) -> KernelSource:
    """The source, for one more range of architectures."""
    return replace(source, arches=tuple(sorted({*source.arches, arches})))


def _choice(
    schedule: Schedule, kernel: Kernel, variant: Variant, known: dict[str, KernelSource]
) -> Choice:
    tile = variant.tile
    template, context, shop = _context(schedule, kernel, tile)
    text = render_template(template, context)
    parameters = shop.arguments.parameters()
    types = " ".join(str(parameter.dtype) for parameter in parameters)
    language = "c" if isinstance(tile, HostTile) else "triton"
    shown = _without_comments(text, language)
    identity = f"{shown} {types} {tile.num_warps} {tile.num_stages}"
    digest = sha256(identity.encode()).hexdigest()[:8]
    arches = (variant.arch_low, variant.arch_high)
    if digest in known:
        known[digest] = _also_for(known[digest], arches)
    else:
        name = f"{kernel.name}_{digest}"
        known[digest] = KernelSource(
            name,
            render_template(template, _named(context, name)),
            parameters,
            tile.num_warps,
            tile.num_stages,
            (arches,),
            language,
        )
    arguments = (*shop.arguments.buffers, *(size.name for size in shop.arguments.sizes))
    return Choice(variant, known[digest].name, _programs(kernel, tile), arguments)


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
    shop = _workshop(schedule, kernel, loop_frame(kernel, tile), _straight_axes(kernel, tile))
    return "kernel_loop.py.jinja", loop_context(schedule, kernel, tile, shop), shop


def _workshop(
    schedule: Schedule, kernel: Kernel, frame: Frame, axes: frozenset[Axis] | None = None
) -> Workshop:
    return Workshop(schedule, kernel, frame, Region(axes or frozenset(frame.names)))


def _straight_axes(kernel: Kernel, tile: LoopTile) -> frozenset[Axis]:
    """The axes that have values outside loops."""
    looped = isinstance(tile, ReductionTile) and not tile.persistent
    return frozenset(kernel.axes[:1] if looped else kernel.axes)


def _without_comments(text: str, language: str) -> str:
    mark = "//" if language == "c" else "#"
    return re.sub(rf"^\s*{mark}.*\n", "", text, flags=re.MULTILINE)


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
    return ceil_div(kernel.axes[0].extent, tile.x)
