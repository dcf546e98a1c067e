"""Rows in registers: a program reads a row, or its part of one, once, and keeps it."""

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.emitter import PACKED_BITS
from aotpack.render.environment import render_function
from aotpack.render.triton.loops.loop_builder import LoopBuilder, RowShare
from aotpack.render.triton.loops.walk import RowWalk


class PersistentRow(RowWalk):
    """A block covers a row, or a program's part of it.

    Parts of rows are long: their elements of 16 bits stay as they are in memory, two a register.
    """

    def __init__(
        self, schedule: Schedule, kernel: Kernel, tile: ReductionTile, share: RowShare
    ) -> None:
        super().__init__(tile, share)
        buffers = schedule.program.buffers
        bits = {buffers[name].dtype.facts.bits for name in kernel.reads}
        if share.is_part and PACKED_BITS in bits:
            self.unpack = _unpacked

    def is_masked(self, length: Int) -> bool:
        """True unless the block is just as long."""
        return length.constant != self.tile.r

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The members, one after the other."""
        if self.unpack is not None:
            builder.functions["opaque"] = render_function("device_packed.py.jinja", "opaque")
        super().emit(builder, program)


def _unpacked(name: str) -> str:
    """A use of packed elements, which the compiler must not take for what it widened before."""
    return f"opaque({name})"
