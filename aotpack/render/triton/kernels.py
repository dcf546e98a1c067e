"""A Triton kernel for each kind of tile: its template, and how many programs a launch has."""

from dataclasses import replace
from functools import partial
from typing import TypeAlias

from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.grouped_heads import with_grouped_heads
from aotpack.ir.kernels.head_blocks import GROUP_WARPS
from aotpack.ir.kernels.kernel import Kernel, Schedule, block_count, unflattened
from aotpack.ir.kernels.tiles import (
    AttentionTile,
    HostTile,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Tile,
    Tile2D,
    TurnsTile,
)
from aotpack.ir.kernels.traffic import work_of
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Int, ceil_div, maximum, minimum
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.language import Divisibility, GluonText, RenderedKernel
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_template
from aotpack.render.triton.attention import (
    attention_frame,
    attention_programs,
)
from aotpack.render.triton.attention_contexts import AttentionContext
from aotpack.render.triton.attention_roles import attention_gluon_text, attention_with_roles
from aotpack.render.triton.contexts import FewRowsContext, LoopContext, MatmulContext
from aotpack.render.triton.dialect import TRITON
from aotpack.render.triton.loops.loops import LoopTile, loop_kernel
from aotpack.render.triton.loops.turns import turns_builder
from aotpack.render.triton.matmul import matmul_context, output_frame
from aotpack.render.triton.products.one_row import few_rows_with_matrix_unit, one_row_text
from aotpack.render.triton.products.roles import gluon_text

Context: TypeAlias = LoopContext | MatmulContext | FewRowsContext | AttentionContext
_Tile: TypeAlias = LoopTile | MatmulTile | AttentionTile
TRITON_TILES = (PointwiseTile, Tile2D, ReductionTile, MatmulTile, AttentionTile, TurnsTile)


def triton_kernel(
    schedule: Schedule, kernel: Kernel, tile: Tile, divisibility: Divisibility
) -> RenderedKernel:
    """A kernel with a tile."""
    assert not isinstance(tile, HostTile)
    if isinstance(tile, TurnsTile):
        return _loop_of_turns(kernel, tile, divisibility)
    return _kernel(schedule, kernel, tile, divisibility)


def _kernel(
    schedule: Schedule, kernel: Kernel, tile: _Tile, divisibility: Divisibility
) -> RenderedKernel:
    context: Context
    ring_bytes = 0
    match tile:
        case MatmulTile() if tile.at_once:
            builder = _builder(schedule, kernel, output_frame(kernel, tile))
            context = few_rows_with_matrix_unit(schedule, kernel, tile, builder)
            template, programs = "kernel_few_rows.py.jinja", _matmul_programs(kernel, tile)
        case MatmulTile():
            builder = _builder(schedule, kernel, output_frame(kernel, tile))
            context = matmul_context(schedule, kernel, tile, builder)
            template, programs = "kernel_matmul.py.jinja", _matmul_programs(kernel, tile)
        case AttentionTile():
            rows, attention = with_grouped_heads(kernel, tile.heads)
            builder = _builder(schedule, rows, attention_frame(attention, tile))
            context = attention_with_roles(rows, attention, tile, builder)
            template, programs = "kernel_attention.py.jinja", attention_programs(attention, tile)
        case _:
            shaped = _shaped(kernel, tile)
            made = loop_kernel(schedule, shaped, tile)
            context, builder, ring_bytes = made.context, made.builder, made.ring_bytes
            template, programs = "kernel_loop.py.jinja", _loop_programs(kernel, tile)
    return RenderedKernel(
        kernel.name,
        lambda name: render_template(template, replace(context, name=name)),
        builder.arguments.parameters(dict(divisibility)),
        builder.arguments.names,
        tile,
        work_of(kernel, schedule.program),
        programs,
        ring_bytes,
        streams=isinstance(tile, MatmulTile) and tile.weights_first,
        reads_early=isinstance(tile, AttentionTile) and tile.keys_first,
        maps=tuple(builder.maps),
        gluon_text=_gluon_text(context, builder),
        gluon_maps=tuple(builder.gluon_maps),
        gluon_warps=_gluon_warps(tile),
    )


def _loop_of_turns(kernel: Kernel, tile: TurnsTile, divisibility: Divisibility) -> RenderedKernel:
    """A counted loop as one kernel."""
    builder = turns_builder(kernel, tile)
    context = builder.context()
    return RenderedKernel(
        kernel.name,
        lambda name: render_template("kernel_turns.py.jinja", replace(context, name=name)),
        builder.arguments.parameters(dict(divisibility)),
        builder.arguments.names,
        tile,
        builder.work,
        builder.programs,
    )


def _gluon_text(context: Context, builder: KernelBuilder) -> GluonText:
    has_maps = bool(builder.maps or builder.gluon_maps)
    match context:
        case FewRowsContext() if context.one_row is not None or context.diagonal is not None:
            return partial(one_row_text, context)
        case MatmulContext() if has_maps:
            return gluon_text(context)
        case AttentionContext() if has_maps:
            return attention_gluon_text(context)
    return None


def _gluon_warps(tile: Tile) -> int:
    """The warps of the first role, where roles that multiply are groups of warps; else 0."""
    match tile:
        case AttentionTile(roles=True):
            return GROUP_WARPS
        case MatmulTile(groups=groups) if groups > 1:
            return tile.num_warps // groups
    return 0


def _builder(schedule: Schedule, kernel: Kernel, frame: Frame) -> KernelBuilder:
    return KernelBuilder(schedule, kernel, frame, Region(frozenset(frame.names)), TRITON)


def _shaped(kernel: Kernel, tile: LoopTile) -> Kernel:
    """The kernel in as many dimensions as its tile."""
    return unflattened(kernel, tile.width, tile.height) if isinstance(tile, Tile2D) else kernel


def _matmul_programs(kernel: Kernel, tile: MatmulTile) -> Int:
    template_op = kernel.template_op
    assert isinstance(template_op, Matmul)
    tiles = ceil_div(template_op.m.extent, tile.m) * ceil_div(template_op.n.extent, tile.n)
    tiles = tiles * points(template_op.batch) * tile.splits
    if tile.most_programs:
        return minimum(tiles, tile.most_programs)
    return maximum(tiles, tile.least_programs) if tile.least_programs else tiles


def _loop_programs(kernel: Kernel, tile: LoopTile) -> Int:
    if isinstance(tile, Tile2D):
        lines, across = kernel.axes[0].extent // tile.width, ceil_div(tile.width, tile.x)
        if tile.height is None:
            return ceil_div(lines, tile.y) * across
        planes = ceil_div(lines // tile.height, tile.z)
        return planes * ceil_div(tile.height, tile.y) * across
    blocks = block_count(kernel, tile)
    resident = tile.resident if isinstance(tile, ReductionTile) else 0
    return minimum(blocks, resident) if resident else blocks
