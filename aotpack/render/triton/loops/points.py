"""Pointwise kernels and scatters: blocks of points, or tiles of neighbouring lines."""

from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import PointwiseTile, Tile2D
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.triton.contexts import TileAxis
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.walk import Walk, tile_axis


class Points(Walk):
    """A program has a block of points."""

    def __init__(self, tile: PointwiseTile) -> None:
        self.tile = tile

    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """The one axis."""
        (x,) = kernel.axes
        return {x: tile_axis(x, self.tile.x)}

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The members; values uniform over a block are computed from its first point."""
        starts = {builder.kernel.axes[0]: f"({program}{builder.index_type}*{self.tile.x})"}
        frame = replace(builder.emitter.frame, starts=starts)
        with builder.emitter.at(builder.root, frame=frame):
            super().emit(builder, program)


class Lines(Walk):
    """A program has a tile of neighbouring points on neighbouring lines, also of several planes."""

    def __init__(self, tile: Tile2D) -> None:
        self.tile = tile
        self.band = tile.band

    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """Two axes, or three."""
        blocks = (self.tile.z, self.tile.y, self.tile.x)[-len(kernel.axes) :]
        return {axis: tile_axis(axis, n) for axis, n in zip(kernel.axes, blocks, strict=True)}
