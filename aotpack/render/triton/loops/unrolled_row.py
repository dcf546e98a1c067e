"""Short rows across lanes: each lane has a row, and the program a line for each of its elements.

    sum over r < 9 of x[row, r] * w[r]    ->    t1 = x0 * w0;  t2 = t1 + x1 * w1;  ...

So windows of convolutions and pooling are read in vectors of neighbouring rows.
"""

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.triton.contexts import TileAxis
from aotpack.render.triton.loops import reductions
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.walk import Walk, store_member, tile_axis
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES


class UnrolledRow(Walk):
    """A program has a block of rows, and their elements one after the other."""

    def __init__(self, tile: ReductionTile) -> None:
        self.tile = tile

    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """Rows."""
        x, _ = kernel.axes
        return {x: tile_axis(x, self.tile.x)}

    def axes(self, kernel: Kernel) -> tuple[Axis, ...]:
        """Rows; an element has no axis."""
        return kernel.axes[:1]

    def emit_member(self, builder: LoopBuilder, member: Member) -> None:
        """The sum of a row's elements, or a value of the row."""
        if isinstance(member.operation, Reduction):
            builder.define(member, self._reduced(builder, member, member.operation))
        store_member(builder, member)

    def _reduced(self, builder: LoopBuilder, member: Member, operation: Reduction) -> list[str]:
        """The names of a reduction's results."""
        monoid, region = TRITON_MONOIDS[operation.kind], builder.emitter.region
        element, kind = builder.bound(member, operation.args[0]), operation.args[0].dtype
        states: list[str] = []
        for number in range(self.tile.r):
            value = builder.emitter.value(Rewriter({builder.kernel.axes[1]: number})(element))
            texts = (text.format(value, type=TRITON_TYPES[kind]) for text in monoid.lift)
            lifted = [reductions.named(builder, text) for text in texts]
            if states:
                lifted = reductions.combined(builder, region, monoid, states, lifted)
            states = lifted
        return [reductions.named(builder, text.format(*states)) for text in monoid.finalise]
