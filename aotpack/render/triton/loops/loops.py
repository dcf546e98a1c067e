"""Pointwise and reduction kernels: the strategy for the tile writes the lines of their members."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import PointwiseTile, ReductionTile, Tile2D
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.render.triton.contexts import LoopContext, TileAxis
from aotpack.render.triton.loops.cluster_reduction import ClusterReduction
from aotpack.render.triton.loops.look_back import LookBack
from aotpack.render.triton.loops.loop_builder import LoopBuilder, WholeRow
from aotpack.render.triton.loops.looped_row import LoopedRow
from aotpack.render.triton.loops.persistent_row import PersistentRow
from aotpack.render.triton.loops.points import Lines, Points
from aotpack.render.triton.loops.row_pipeline import RowPipeline
from aotpack.render.triton.loops.unrolled_row import UnrolledRow
from aotpack.render.triton.loops.walk import Walk

PROGRAM_ID = "tl.program_id(0)"
LoopTile: TypeAlias = PointwiseTile | Tile2D | ReductionTile


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """A loop kernel: the template's context, its builder, its bytes of shared memory."""

    context: LoopContext
    builder: LoopBuilder
    ring_bytes: int


def loop_kernel(
    schedule: Schedule,
    kernel: Kernel,
    tile: LoopTile,
    program: str = PROGRAM_ID,
    awaited: Collection[str] = (),
) -> LoopKernel:
    """Render a loop kernel; ``awaited`` buffers are written by other programs of the launch."""
    walk = walk_of(schedule, kernel, tile)
    kernel = walk.shaped(kernel)
    sides = walk.sides(kernel)
    builder = LoopBuilder(
        schedule,
        kernel,
        _frame(sides),
        Region(frozenset(walk.axes(kernel))),
        walk.partition,
        awaited=awaited,
        unpack=walk.unpack,
    )
    walk.emit(builder, program)
    return LoopKernel(_context(walk, sides, builder, program), builder, walk.ring_bytes)


def walk_of(schedule: Schedule, kernel: Kernel, tile: LoopTile) -> Walk:
    """The strategy for a tile."""
    if isinstance(tile, PointwiseTile):
        return Points(tile)
    if isinstance(tile, Tile2D):
        return Lines(tile)
    if tile.look_back:
        return LookBack(tile, WholeRow())
    if tile.ring:
        return RowPipeline(schedule, kernel, tile)
    if tile.unrolled:
        return UnrolledRow(tile, kernel)
    cluster = tile.cluster_size > 1
    partition = ClusterReduction(kernel, tile.cluster_size, stages=1) if cluster else WholeRow()
    if tile.persistent:
        return PersistentRow(schedule, kernel, tile, partition)
    return LoopedRow(tile, partition)


def _frame(sides: dict[Axis, TileAxis]) -> Frame:
    """The index tensors, masks and dimensions of a tile."""
    masks = {
        axis: f"{axis.name}_mask" for axis, side in sides.items() if side.block and side.masked
    }
    blocks = tuple((axis, side.block) for axis, side in sides.items() if side.block)
    return Frame({axis: axis.name for axis in sides}, masks, blocks)


def _context(
    walk: Walk, sides: dict[Axis, TileAxis], builder: LoopBuilder, program: str
) -> LoopContext:
    """The context of the template, without the name."""
    named = {axis.name: side for axis, side in sides.items()}
    for axis in sides:
        builder.arguments.use_sizes(axis.extent)
    return LoopContext(
        name=builder.kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        z=named.get("z"),
        y=named.get("y"),
        x=named["x"],
        r=named.get("r"),
        is_flat=sum(bool(side.block) for side in sides.values()) == 1,
        persistent=walk.persistent,
        lines=tuple(builder.root.lines()),
        program=program,
        band=walk.band,
        is_launched=program == PROGRAM_ID,
        cluster=walk.partition.context,
        is_row_pipeline=walk.is_row_pipeline,
        look_back=walk.look_back(builder),
    )
