"""Depthwise convolutions in C: short sums of products over a window, with channels in lanes.

    for p, c: y[p, c] = sum over r of x[p + r, c] * w[r, c]

A few positions are summed together in registers, in float32 as in eager, so that each weight is
read once for all of them. Positions whose window leaves the input are summed one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points, slope
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Reduction
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, product
from aotpack.ir.values import Apply, Guarded, Load, Value
from aotpack.render.c.contexts import DepthwiseContext
from aotpack.render.c.dialect import C
from aotpack.render.c.loops.loops import decode
from aotpack.render.c.loops.nest import LoopNest, nest
from aotpack.render.c.products.levels import LevelRegions, extent_text, setup_lines
from aotpack.render.c.products.slots import IN_PLACE, store_members
from aotpack.render.c.regions import c_lines
from aotpack.render.c.window import Limit, window
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region

LANES = 16  # of a vector
MOST_TERMS = 128  # short sums are accurate sums


@dataclass(frozen=True, slots=True)
class WindowSum:
    """The sum of a kernel: its factors, and where they are inside the input.

    Every lane of a vector has a channel; ``position`` is the digit along which windows slide, if
    any. Of ``limits`` each bounds the position; ``conditions`` do not depend on it.
    """

    nested: LoopNest
    image: Load
    weight: Load
    guard: Value | None
    position: Axis | None
    limits: tuple[Limit, ...]
    conditions: tuple[Value, ...]

    @property
    def lanes(self) -> Axis:
        """The digit of channels."""
        return self.nested.x[-1]

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The digits around a line of positions."""
        return tuple(axis for axis in self.nested.x[:-1] if axis is not self.position)


def window_sum(schedule: Schedule, kernel: Kernel) -> WindowSum | None:
    """The sum that the kernel is built around; None for any other kernel."""
    first, *others = kernel.members
    operation = first.operation
    if not isinstance(operation, Reduction) or not all(member.outer for member in others):
        return None
    terms = bounds(product(axis.extent for axis in operation.inner))[1]
    if operation.kind != "sum" or terms > MOST_TERMS:
        return None
    nested = nest(schedule, kernel)
    builder = _builder(schedule, nested)
    value = builder.bound(nested.kernel.members[0], operation.args[0])
    factors = _factors(value.value if isinstance(value, Guarded) else value, builder)
    lanes = nested.x[-1]
    if factors is None or bounds(lanes.extent)[0] < LANES:
        return None
    for image, weight in (factors, factors[::-1]):
        offsets = builder.offset(image), builder.offset(weight)
        if any(slope(offset, lanes) != 1 for offset in offsets):
            return None
        position = _position(nested, *offsets)
        if position is not None or len(nested.x) == 1:
            return _guarded(WindowSum(nested, image, weight, None, position, (), ()), value)
    return None


def _factors(value: Value, builder: KernelBuilder) -> tuple[Load, Load] | None:
    """Two elements of memory whose product a value is."""
    if not isinstance(value, Apply) or value.op != "mul" or value.dtype is not DType.FLOAT32:
        return None
    left, right = value.args
    if not isinstance(left, Load) or not isinstance(right, Load):
        return None
    for load in (left, right):
        stored = builder.schedule.program.buffers[load.buffer].dtype
        if stored not in IN_PLACE or builder.resolve(load) is not None:
            return None
    return left, right


def _position(nested: LoopNest, image: Int, weight: Int) -> Axis | None:
    """The innermost digit along which the image moves and the weight stays."""
    for digit in reversed(nested.x[:-1]):
        step = slope(image, digit)
        if step is not None and step > 0 and slope(weight, digit) == 0:
            return digit
    return None


def _guarded(found: WindowSum, value: Value) -> WindowSum | None:
    """The sum with the limits of its guard; None if a lane has limits of its own."""
    if not isinstance(value, Guarded):
        return found
    across = window(value, found.lanes)
    along = across if found.position is None else window(value, found.position)
    if across is None or across.limits or along is None:
        return None
    if any(slope(one.start, tap) is None for one in along.limits for tap in found.nested.r):
        return None
    return replace(found, guard=value.condition, limits=along.limits, conditions=along.conditions)


def depthwise_source(
    schedule: Schedule, kernel: Kernel, found: WindowSum
) -> tuple[DepthwiseContext, KernelBuilder]:
    """The context of the template, and the kernel's builder."""
    nested, position = found.nested, found.position
    builder = _builder(schedule, nested)
    names = {axis: axis.name for axis in nested.axes}
    frame, inner = Frame(names, {}, ()), (() if position is None else (position,))
    sums = LevelRegions(builder, frame, (found.outer, nested.r, (*inner, found.lanes)))
    emitter = sums.emitter
    image, weight = (_first_element(load, emitter, builder) for load in (found.image, found.weight))
    conditions = " & ".join(map(emitter.value, found.conditions))
    guard = "" if found.guard is None else emitter.value(found.guard)
    builder.define(nested.kernel.members[0], ["sum"])
    stores = LevelRegions(builder, frame, (found.outer, inner, (found.lanes,)))
    store_members(builder, stores.emitter)
    context = DepthwiseContext(
        name=kernel.name,
        comments=builder.comments,
        lines=extent_text(builder, points(found.outer)),
        outer=tuple(axis.name for axis in found.outer),
        outer_lines=_digits(found.outer, builder),
        taps=tuple((axis.name, extent_text(builder, axis.extent)) for axis in nested.r),
        position="position" if position is None else position.name,
        positions="1" if position is None else extent_text(builder, position.extent),
        inside=_inside(found, builder),
        lanes=found.lanes.name,
        channels=extent_text(builder, found.lanes.extent),
        sums=tuple(sums.lines(level) for level in range(4)),
        guard=guard,
        conditions=conditions,
        image=image,
        image_type=str(builder.arguments.dtype(found.image.buffer)),
        step=0 if position is None else slope(builder.offset(found.image), position) or 0,
        weight=weight,
        weight_type=str(builder.arguments.dtype(found.weight.buffer)),
        stores=tuple(stores.lines(level) for level in range(4)),
        parameters=setup_lines(builder, kernel.stored),
    )
    return context, builder


def _first_element(load: Load, emitter: Emitter, builder: KernelBuilder) -> str:
    pointer = builder.arguments.pointer(load.buffer)
    return C.address(pointer, emitter.index(builder.offset(load)))


def _digits(axes: tuple[Axis, ...], builder: KernelBuilder) -> tuple[str, ...]:
    """The digits of the number ``line``."""
    region = Region(frozenset())
    decode(axes, "line", region, builder)
    return tuple(c_lines(region))


def _builder(schedule: Schedule, nested: LoopNest) -> KernelBuilder:
    names = {axis: axis.name for axis in nested.axes}
    return KernelBuilder(schedule, nested.kernel, Frame(names, {}, ()), Region(frozenset()), C)


def _inside(found: WindowSum, builder: KernelBuilder) -> tuple[str, str]:
    """The first position whose whole window is inside, and the first one after these."""
    low = "0"
    high = "1" if found.position is None else extent_text(builder, found.position.extent)
    for limit in found.limits:
        reach = limit.bound - limit.start.substitute(dict(_farthest(limit, found.nested.r)))
        text = extent_text(builder, reach)
        edge = text if limit.step == 1 else f"aot_ceil_div({text}, {limit.step})"
        if limit.is_upper:
            high = f"aot_min({high}, {edge})"
        else:
            low = f"aot_max({low}, {edge})"
    return low, high


def _farthest(limit: Limit, taps: tuple[Axis, ...]) -> Iterator[tuple[Axis, Int]]:
    """The tap at which a limit is strictest."""
    for tap in taps:
        step = slope(limit.start, tap)
        assert step is not None
        is_last = (step > 0) is limit.is_upper
        yield tap, tap.extent - 1 if is_last else Int.of(0)
