"""Resident rows: a program reads a row, or its part of one, into registers once."""

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.emitter import PACKED_BITS
from aotpack.render.environment import render_function
from aotpack.render.triton.loops.loop_builder import LoopBuilder, RowPartition
from aotpack.render.triton.loops.walk import RowWalk


class PersistentRow(RowWalk):
    """A block covers a row, or a program's part of it.

    Parts of rows are long: their elements of 16 bits stay packed, two a register.
    """

    def __init__(
        self, schedule: Schedule, kernel: Kernel, tile: ReductionTile, partition: RowPartition
    ) -> None:
        super().__init__(tile, partition)
        buffers = schedule.program.buffers
        bits = {buffers[name].dtype.facts.bits for name in kernel.reads}
        if partition.is_part and PACKED_BITS in bits:
            self.unpack = _unpacked

    def is_masked(self, length: Int) -> bool:
        """True unless the block is exactly as long."""
        return length.constant != self.tile.r

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The members in order."""
        if self.unpack is not None:
            builder.functions["opaque"] = render_function("device_packed.py.jinja", "opaque")
        super().emit(builder, program)


def _unpacked(name: str) -> str:
    """A use of packed elements, opaque to the compiler, which would keep the widened ones."""
    return f"opaque({name})"
