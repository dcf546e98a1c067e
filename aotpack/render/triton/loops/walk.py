"""How the programs of a loop kernel traverse its points: one strategy, chosen from the tile.

A strategy owns its state and the lines it adds; ``loops.py`` calls its methods in the order in
which they stand here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Reduction, Scan, Scatter
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.emit.epilogue import store_results
from aotpack.render.triton.contexts import LookBackContext, TileAxis
from aotpack.render.triton.loops.loop_builder import LoopBuilder, RowPartition, WholeRow
from aotpack.render.triton.loops.reductions import block_reduction, block_scan
from aotpack.render.triton.loops.scatter import scatter_line


class Walk(ABC):
    """Straight code: each program has a block of points in registers."""

    partition: RowPartition = WholeRow()
    unpack: Callable[[str], str] | None = None  # of packed elements
    persistent = True  # a program has a block along the inner axis in registers
    is_row_pipeline = False  # programs loop over rows
    band = 1  # lines of tiles in a group, for reuse in L2
    ring_bytes = 0  # of shared memory, besides Triton's

    def shaped(self, kernel: Kernel) -> Kernel:
        """The kernel over the axes that programs have blocks of."""
        return kernel

    @abstractmethod
    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """The kernel's axes in the tile; a block of 0 is one point for the whole program."""

    def axes(self, kernel: Kernel) -> tuple[Axis, ...]:
        """The axes that have a value everywhere in the kernel, not in loops alone."""
        return kernel.axes

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The lines of all members; ``program`` is the program number."""
        self.partition.open(builder)
        for member in builder.kernel.members:
            self.emit_member(builder, member)

    def emit_member(self, builder: LoopBuilder, member: Member) -> None:
        """The lines of a member for the block in registers."""
        match operation := member.operation:
            case Reduction():
                define_reduction(builder, member, operation, block_reduction(builder, member))
            case Scan():
                builder.define(member, self.scan(builder, member))
            case Scatter():
                builder.emitter.region.append(scatter_line(builder, member, operation))
                return
        store_member(builder, member)

    def scan(self, builder: LoopBuilder, member: Member) -> list[str]:
        """The results of a scan of the block."""
        return block_scan(builder, member)

    def look_back(self, builder: LoopBuilder) -> LookBackContext | None:
        """The numbering of blocks; None where programs do not wait for each other."""
        return None


class RowWalk(Walk):
    """Programs have blocks of a row, or of several short ones."""

    def __init__(self, tile: ReductionTile, partition: RowPartition) -> None:
        self.tile, self.partition = tile, partition

    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """Rows, and blocks along them."""
        x, r = kernel.axes
        length = self.partition.length(r.extent)
        row = replace(tile_axis(r, self.tile.r), masked=self.is_masked(length))
        return {x: tile_axis(x, self.tile.x if self.tile.x > 1 else 0), r: row}

    def is_masked(self, length: Int) -> bool:
        """True when some block runs past the end of a program's part of a row."""
        return not known_multiple(length, self.tile.r)


def tile_axis(axis: Axis, block: int) -> TileAxis:
    """An axis in blocks, with masks unless the block divides it."""
    return TileAxis(str(axis.extent), block, bool(block) and not known_multiple(axis.extent, block))


def define_reduction(
    builder: LoopBuilder, member: Member, operation: Reduction, names: list[str]
) -> None:
    """Record a reduction's results; a softmax may use them in cheaper forms."""
    builder.define(member, names)
    if operation.kind == "softmax":
        top, total = operation.targets
        builder.softmax.tops.add(top)
        builder.softmax.sums.add(total)


def store_member(builder: LoopBuilder, member: Member) -> None:
    """The stores of what a member makes: for each point, or once for each row."""
    outer = member.outer or isinstance(member.operation, Reduction)
    axes = frozenset(builder.kernel.axes[:1] if outer else builder.kernel.axes)
    store_results(builder, member, builder.emitter, axes)
