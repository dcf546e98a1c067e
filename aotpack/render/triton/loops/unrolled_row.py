"""Short rows across lanes: each lane has a row, and the program a line for each of its elements.

    sum over r < 9 of x[row, r] * w[r]    ->    t1 = x0 * w0;  t2 = t1 + x1 * w1;  ...

So windows of convolutions and pooling are read in vectors of neighbouring rows. A lane may have
several windows that slide: it loads what they share, and weights, once.
"""

from collections.abc import Sequence
from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, Load, Value
from aotpack.render.triton.contexts import TileAxis
from aotpack.render.triton.loops import reductions
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.walk import Walk, store_member, tile_axis
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES


class UnrolledRow(Walk):
    """A program has a block of rows, and their elements one after the other."""

    def __init__(self, tile: ReductionTile, kernel: Kernel) -> None:
        self.tile = tile
        self._kernels = windows_of_lanes(kernel, tile) if tile.apart else (kernel,)

    def shaped(self, kernel: Kernel) -> Kernel:
        """The kernel over lanes, at the first window of each."""
        return self._kernels[0]

    def sides(self, kernel: Kernel) -> dict[Axis, TileAxis]:
        """Lanes."""
        x, _ = kernel.axes
        return {x: tile_axis(x, self.tile.x)}

    def axes(self, kernel: Kernel) -> tuple[Axis, ...]:
        """Lanes; an element has no axis."""
        return kernel.axes[:1]

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The lines of each member, for all windows of a lane."""
        builders = (builder, *map(builder.beside, self._kernels[1:]))
        for number, member in enumerate(builder.kernel.members):
            if isinstance(member.operation, Reduction):
                self._reduce(builders, number)
            for one in builders:
                store_member(one, one.kernel.members[number])

    def _reduce(self, builders: Sequence[LoopBuilder], number: int) -> None:
        """The sums of rows, element by element, so that few elements are live at once."""
        states: list[list[str]] = [[] for _ in builders]
        for place in range(self.tile.r):
            for one, builder in enumerate(builders):
                member = builder.kernel.members[number]
                states[one] = self._with_element(builder, member, place, states[one])
        for builder, found in zip(builders, states, strict=True):
            member = builder.kernel.members[number]
            assert isinstance(member.operation, Reduction)
            monoid = TRITON_MONOIDS[member.operation.kind]
            names = [reductions.named(builder, text.format(*found)) for text in monoid.finalise]
            builder.define(member, names)

    def _with_element(
        self, builder: LoopBuilder, member: Member, place: int, states: list[str]
    ) -> list[str]:
        """The states of rows after one more element."""
        operation = member.operation
        assert isinstance(operation, Reduction)
        monoid, kind = TRITON_MONOIDS[operation.kind], operation.args[0].dtype
        element = builder.bound(member, operation.args[0])
        element = Rewriter({builder.kernel.axes[1]: place})(element)
        product = _padded_product(builder, element) if operation.kind == "sum" else None
        value = builder.emitter.value(element) if product is None else _text(builder, *product)
        texts = (text.format(value, type=TRITON_TYPES[kind]) for text in monoid.lift)
        made = [reductions.named(builder, text) for text in texts]
        if states:
            made = reductions.combined(builder, builder.emitter.region, monoid, states, made)
        return made if product is None else _where_it_counts(builder, product, made, states)


def _text(builder: LoopBuilder, image: Load, weight: Load, condition: Value) -> str:
    """The product of a weight, which all lanes load, and an image or its padding."""
    return f"({builder.emitter.padded(image, condition)} * {builder.emitter.value(weight)})"


def _where_it_counts(
    builder: LoopBuilder, product: tuple[Load, Load, Value], sums: list[str], before: list[str]
) -> list[str]:
    """The sum with a product where there is an image, and the sum before it elsewhere.

    Padding times an infinite weight is not 0. To choose among sums is one instruction with the
    addition: it has a predicate.
    """
    condition = builder.emitter.value(product[2])
    (after,), old = sums, (before or ["0.0"])[0]
    return [reductions.named(builder, f"tl.where({condition}, {after}, {old})")]


def _padded_product(builder: LoopBuilder, element: Value) -> tuple[Load, Load, Value] | None:
    """The image, the weight, and where there is an image, of a product that is 0 elsewhere."""
    if not isinstance(element, Guarded) or not isinstance(element.value, Apply):
        return None
    is_zero = isinstance(element.otherwise, Const) and element.otherwise.value == 0
    factors = element.value.args
    if not is_zero or element.value.op != "mul" or not element.dtype.is_float:
        return None
    for image, weight in (factors, factors[::-1]):
        if not isinstance(image, Load) or not isinstance(weight, Load):
            return None
        if builder.resolve(image) is None and _stays_inside(builder, weight):
            return image, weight, element.condition
    return None


def _stays_inside(builder: LoopBuilder, load: Load) -> bool:
    """True for an element that exists at every point, whatever a condition says."""
    shape = builder.schedule.program.buffers[load.buffer].shape
    return builder.resolve(load) is None and all(
        known_le(0, index) and known_le(index + 1, size)
        for index, size in zip(load.index, shape, strict=True)
    )


def windows_of_lanes(kernel: Kernel, tile: ReductionTile) -> tuple[Kernel, ...]:
    """The kernel over lanes, at each of the windows of a lane."""
    x, *others = kernel.axes
    lane = Axis(x.name, x.extent // tile.unroll)
    first = Int.of(lane) // tile.apart * (tile.unroll * tile.apart) + Int.of(lane) % tile.apart

    def at(window: int) -> Kernel:
        change = {x: first + window * tile.apart}
        members = (
            replace(one, binding=tuple((a, v.substitute(change)) for a, v in one.binding))
            for one in kernel.members
        )
        return replace(kernel, axes=(lane, *others), members=tuple(members))

    return tuple(map(at, range(tile.unroll)))
