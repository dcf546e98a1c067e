"""Depthwise convolutions in C: short sums of products over a window, with channels in lanes.

    for p, c: y[p, c] = sum over r of x[p + r, c] * w[r, c]

The windows of a tile of positions are summed together in registers, in float32 as in eager. Of each
of their rows, a column of the image is read once for all windows that it belongs to; columns
outside the image are left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points, slope
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Reduction
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, product
from aotpack.ir.values import Apply, Guarded, Load, Value
from aotpack.render.c.contexts import Columns, DepthwiseContext
from aotpack.render.c.dialect import C
from aotpack.render.c.loops.loops import decode
from aotpack.render.c.loops.nest import LoopNest, nest
from aotpack.render.c.products.levels import LevelRegions, extent_text, setup_lines
from aotpack.render.c.products.slots import IN_PLACE, store_members
from aotpack.render.c.products.split import indices
from aotpack.render.c.regions import c_lines
from aotpack.render.c.window import Limit, window
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region

LANES = 16  # of a vector
MOST_TERMS = 128  # short sums are accurate sums
MOST_POSITIONS = 8  # whose sums are in registers together
MOST_COLUMNS = 40  # that a row of a tile reads


@dataclass(frozen=True, slots=True)
class WindowSum:
    """The sum of a kernel: its factors, and where they are inside the input.

    Every lane of a vector has a channel; ``position`` is the digit along which windows slide, if
    any. Of ``limits`` each bounds the position; ``conditions`` do not depend on it.
    """

    nested: LoopNest
    image: Load
    weight: Load
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
            return _guarded(WindowSum(nested, image, weight, position, (), ()), value)
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
    return replace(found, limits=along.limits, conditions=along.conditions)


def _columns(found: WindowSum, builder: KernelBuilder) -> tuple[Columns, Axis | None]:
    """Columns that neighbouring positions share, and the innermost tap that has such.

    Without one, every row has a column for each position.
    """
    tile = _tile(found.position)
    step = 0 if found.position is None else _step(builder.offset(found.image), found.position)
    for tap in reversed(found.nested.r):
        count, across = tap.extent.constant, slope(builder.offset(found.image), tap) or 0
        weight_pitch = slope(builder.offset(found.weight), tap)
        if count is None or across <= 0 or step == 0 or weight_pitch is None:
            continue
        pitch = math.gcd(step, across)
        columns = Columns(count, step // pitch, across // pitch, pitch, weight_pitch, tile)
        last = columns.stride * (tile - 1) + columns.dilation * (count - 1)
        if last < MOST_COLUMNS and _limits_columns(found, columns, tap):
            return columns, tap
    return Columns(1, 1, 1, step, 0, tile), None


def _tile(position: Axis | None) -> int:
    """Positions of a tile: of lines of known length the fewest and nearly equal tiles."""
    if position is None:
        return 1
    count = position.extent.constant or MOST_POSITIONS
    return -(-count // -(-count // MOST_POSITIONS))


def _limits_columns(found: WindowSum, columns: Columns, tap: Axis) -> bool:
    """True if limits hold or not for a whole column, and conditions for a whole row."""
    if any(tap in part.leaves() for part in indices(found.conditions)):
        return False
    return all(
        limit.step % columns.stride == 0
        and _step(limit.start, tap) == limit.step // columns.stride * columns.dilation
        for limit in found.limits
    )


def _step(index: Int, axis: Axis) -> int:
    step = slope(index, axis)
    assert step is not None
    return step


def depthwise_source(
    schedule: Schedule, kernel: Kernel, found: WindowSum
) -> tuple[DepthwiseContext, KernelBuilder]:
    """The context of the template, and the kernel's builder."""
    nested, position = found.nested, found.position
    builder = _builder(schedule, nested)
    columns, tap = _columns(found, builder)
    taps = tuple(axis for axis in nested.r if axis is not tap)
    frame = Frame({axis: axis.name for axis in nested.axes}, {}, ())
    inner = () if position is None else (position,)
    sums = LevelRegions(builder, frame, (found.outer, taps))
    first = {axis: Int.of(0) for axis in (*inner, tap, found.lanes) if axis is not None}
    places = [_element(load, first, sums.emitter, builder) for load in (found.image, found.weight)]
    conditions = " & ".join(map(sums.emitter.value, found.conditions))
    inside = _inside(found, columns, first, sums.emitter)
    stores = _stores(builder, frame, (found.outer, inner, (found.lanes,)))
    context = DepthwiseContext(
        name=kernel.name,
        comments=builder.comments,
        lines=extent_text(builder, points(found.outer)),
        outer=tuple(axis.name for axis in found.outer),
        outer_lines=_digits(found.outer, builder),
        rows=tuple((axis.name, extent_text(builder, axis.extent)) for axis in taps),
        columns=columns,
        position="position" if position is None else position.name,
        positions="1" if position is None else extent_text(builder, position.extent),
        inside=inside,
        lanes=found.lanes.name,
        channels=extent_text(builder, found.lanes.extent),
        sums=tuple(sums.lines(level) for level in range(3)),
        conditions=conditions,
        image=places[0],
        image_type=str(builder.arguments.dtype(found.image.buffer)),
        weight=places[1],
        weight_type=str(builder.arguments.dtype(found.weight.buffer)),
        stores=stores,
        parameters=setup_lines(builder, kernel.stored),
    )
    return context, builder


def _stores(
    builder: KernelBuilder, frame: Frame, levels: tuple[tuple[Axis, ...], ...]
) -> tuple[tuple[str, ...], ...]:
    builder.define(builder.kernel.members[0], ["sum"])
    stores = LevelRegions(builder, frame, levels)
    store_members(builder, stores.emitter)
    return tuple(stores.lines(level) for level in range(4))


def _element(
    load: Load, place: Mapping[Axis, Int], emitter: Emitter, builder: KernelBuilder
) -> str:
    offset = builder.offset(load).substitute(place)
    return C.address(builder.arguments.pointer(load.buffer), emitter.index(offset))


def _inside(
    found: WindowSum, columns: Columns, first: Mapping[Axis, Int], emitter: Emitter
) -> tuple[str, str]:
    """The first column of a row that is in the image, and the first one after these."""
    low, high = "0", "columns"
    for limit in found.limits:
        text = emitter.index(limit.bound - limit.start.substitute(first))
        unit = limit.step // columns.stride
        edge = text if unit == 1 else f"aot_ceil_div({text}, {unit})"
        if limit.is_upper:
            high = f"aot_min({high}, {edge})"
        else:
            low = f"aot_max({low}, {edge})"
    return low, high


def _digits(axes: tuple[Axis, ...], builder: KernelBuilder) -> tuple[str, ...]:
    """The digits of the number ``line``."""
    region = Region(frozenset())
    decode(axes, "line", region, builder)
    return tuple(c_lines(region))


def _builder(schedule: Schedule, nested: LoopNest) -> KernelBuilder:
    names = {axis: axis.name for axis in nested.axes}
    return KernelBuilder(schedule, nested.kernel, Frame(names, {}, ()), Region(frozenset()), C)
