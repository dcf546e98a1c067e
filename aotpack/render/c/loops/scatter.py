"""Scatters in C: work is shared along axes whose elements differ, so nothing need be atomic.

    y[i[n], d] += v[n, d]    ->    for n: for d in [first, last): y[i[n], d] += v[n, d]

An axis is parallel (``shared``) when some dimension of the index is a multiple of it and nothing
else: two of its points never meet in an element. The other axes are sequential (``walked``), so
that the last "set" stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotpack.ir.kernels.access import points, slope, written_index
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Scatter
from aotpack.ir.ops.conditions import bounds_checks
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.render.c.loops.loops import GRAIN, HostCode, HostFunction, cost, decode, parallel
from aotpack.render.c.loops.nest import LoopNest
from aotpack.render.c.loops.reductions import fill
from aotpack.render.c.monoids import C_MONOIDS
from aotpack.render.c.regions import c_lines, open_loop
from aotpack.render.c.types import C_TYPES
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region

ENOUGH_ITEMS = 64  # with as many in the leading axes, no others are shared


@dataclass(frozen=True, slots=True)
class _Split:
    """``shared`` axes are the items of threads; the others are sequential, outside or inside."""

    shared: tuple[Axis, ...]
    walked: tuple[Axis, ...]
    items_first: bool


def scatter_nest(kernel: Kernel, operation: Scatter) -> LoopNest:
    """The kernel over the scatter's axes, under names that no other name of a kernel has."""
    axes = tuple(Axis(f"x{number}", a.extent) for number, a in enumerate(operation.axes))
    binding = tuple((old, Int.of(new)) for old, new in zip(operation.axes, axes, strict=True))
    member = Member(operation, binding, outer=False)
    return LoopNest(replace(kernel, members=(member,)), axes, (), ())


def scatter_code(nest: LoopNest, builder: KernelBuilder, operation: Scatter) -> HostCode:
    """A function over the points of the shared axes."""
    (member,) = nest.kernel.members
    split = _split(nest.x, written_index(member))
    if not split.shared:
        _walk_alone(split, member, builder, operation)
    elif split.items_first:
        _walk_in_items(split, member, builder, operation)
    else:
        _walk_around_items(split, member, builder, operation)
    lines = tuple(c_lines(builder.root))
    walked = _extent(builder, split.walked)
    grain = max(1, GRAIN // cost(nest, builder))
    entry = parallel(
        builder, "run", _extent(builder, split.shared), f"aot_max(1, {grain} / ({walked} + 1))"
    )
    return HostCode((HostFunction("run", lines),), (entry,))


def _split(axes: tuple[Axis, ...], index: tuple[Int, ...]) -> _Split:
    distinct = [axis for axis in axes if any(_separates(part, axis, axes) for part in index)]
    leading = []
    for axis in axes:
        if axis not in distinct:
            break
        leading.append(axis)
    enough = typical(points(leading)) >= ENOUGH_ITEMS
    items_first = len(leading) < len(axes) and (enough or len(leading) == len(distinct) > 0)
    shared = leading if items_first else distinct
    return _Split(tuple(shared), tuple(a for a in axes if a not in shared), items_first)


def _separates(part: Int, axis: Axis, axes: Sequence[Axis]) -> bool:
    """True when different points of the axis have different numbers in this part of the index."""
    others = [leaf for leaf in part.leaves() if isinstance(leaf, Indirect) or leaf in axes]
    return others == [axis] and bool(slope(part, axis))


# --- loops -------------------------------------------------------------------------------------


def _walk_alone(split: _Split, member: Member, builder: KernelBuilder, operation: Scatter) -> None:
    """Every axis in order, by one thread."""
    _emit(_loops(builder.root, split.walked, builder), member, builder, operation)


def _walk_in_items(
    split: _Split, member: Member, builder: KernelBuilder, operation: Scatter
) -> None:
    """Each item is a point of the leading axes; the other axes are loops inside it."""
    header = "for (int64_t item = first; item < last; item++)"
    region = builder.root.open(header, frozenset(split.shared))
    decode(split.shared, "item", region, builder)
    _emit(_loops(region, split.walked, builder), member, builder, operation)


def _walk_around_items(
    split: _Split, member: Member, builder: KernelBuilder, operation: Scatter
) -> None:
    """At each point of the sequential axes, all items of the thread, along their last axis."""
    outer = _loops(builder.root, split.walked, builder)
    digit = split.shared[-1]
    run = outer.open("for (int64_t run = first; run < last;)", frozenset(split.shared[:-1]))
    decode(split.shared, "run", run, builder, last_name="start")
    length = builder.emitter.index(digit.extent)
    rest = "last" if len(split.shared) == 1 else f"aot_min({length}, start + last - run)"
    run.append(f"const int64_t stop = {rest};")
    _emit(
        open_loop(run, frozenset((digit,)), digit.name, "stop", start="start", is_vector=True),
        member,
        builder,
        operation,
    )
    run.close()
    run.append("run += stop - start;")


def _loops(region: Region, axes: tuple[Axis, ...], builder: KernelBuilder) -> Region:
    """A loop over each axis; gives the innermost."""
    for axis in axes:
        extent = builder.emitter.index(axis.extent)
        region = open_loop(region, frozenset((axis,)), axis.name, extent)
    return region


def _emit(region: Region, member: Member, builder: KernelBuilder, operation: Scatter) -> None:
    """The statement for one point."""
    with builder.emitter.at(region):
        region.append(_statement(member, builder, operation))


def _statement(member: Member, builder: KernelBuilder, operation: Scatter) -> str:
    emitter, buffer = builder.emitter, builder.schedule.program.buffers[operation.target]
    index = written_index(member)
    value = emitter.value(builder.bound(member, operation.value))
    conditions = [emitter.value(condition) for condition in bounds_checks(index, buffer.shape)]
    offset = builder.offset_of(buffer.name, index)
    if operation.kind == "set":
        return emitter.store(buffer.name, offset, value, frozenset(), conditions)
    place = builder.dialect.address(emitter.arguments.pointer(buffer.name), emitter.index(offset))
    (text,) = C_MONOIDS[operation.kind].combine
    combined = fill(text, buffer.dtype, state=str(buffer.dtype))
    given = f"const {C_TYPES[buffer.dtype]} a0 = {place}, b0 = {value};"
    guard = f"if ({' & '.join(conditions)}) " if conditions else ""
    return f"{guard}{{ {given} {place} = {combined}; }}"


def _extent(builder: KernelBuilder, axes: tuple[Axis, ...]) -> str:
    """The number of points of axes."""
    return f"({builder.emitter.index(points(axes))})"
