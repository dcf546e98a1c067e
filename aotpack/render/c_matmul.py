"""Matrix products in C: one factor packed in panels, the other read in rows, members on the tile.

Which factor is packed, and along which axis results are stored, follows from how both and the
stores lie in memory: convolutions pack their windows, linears the narrower of their factors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aotpack.ir.access import Strides, accesses, dot, slope, written_index
from aotpack.ir.dtypes import DType
from aotpack.ir.facts import typical
from aotpack.ir.integers import Axis, Int, product
from aotpack.ir.nodes import Const, Guarded, Load, Matmul, Pointwise, Value, targets, walk
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.schedule import Kernel, Member, Schedule
from aotpack.render.c_contexts import MatmulContext, Walk
from aotpack.render.c_dialect import C
from aotpack.render.c_parameters import parameter_lines
from aotpack.render.c_split import Split, indices, split
from aotpack.render.c_window import Window, window
from aotpack.render.emitter import Emitter, Frame
from aotpack.render.epilogue import batch_names
from aotpack.render.regions import Region
from aotpack.render.workshop import Workshop

PANEL, HEIGHT, BLOCK = 32, 12, 128  # of the widest kernel; what a choice of sides is made for
SCATTERED = 6  # the cost of copying an element that has no neighbour in memory


@dataclass(frozen=True, slots=True)
class Side:
    """A factor of a product and the axis of the result that is its own."""

    value: Value
    axis: Axis


@dataclass(frozen=True, slots=True)
class Plan:
    """The factor that is packed, the one read in rows, and which axis stores run along."""

    packed: Side
    rows: Side
    panel_is_inner: bool


def matmul_source(schedule: Schedule, kernel: Kernel) -> tuple[MatmulContext, Workshop]:
    """Everything the template prints, and the workshop that knows the kernel's arguments."""
    anchor = kernel.anchor
    assert isinstance(anchor, Matmul)
    plan = choose_sides(schedule, kernel, anchor)
    v, s = plan.packed.axis, plan.rows.axis
    inner, outer = (v, s) if plan.panel_is_inner else (s, v)
    columns = split(inner, _epilogue_indices(kernel, schedule.strides))
    names = _names(anchor, {outer: "s" if outer is s else "v"}, columns, "v" if inner is v else "s")
    shop = _workshop(schedule, kernel, columns, names)
    store = _store(shop, anchor, outer, columns, names)
    pack, depth_inner = _pack(shop, anchor, plan.packed, schedule.strides)
    rows = _rows(shop, anchor, plan.rows)
    direct = _direct(shop, anchor, plan.rows, schedule.strides)
    batch = product(axis.extent for axis in anchor.batch)
    extents = [_extent(shop, e) for e in (batch, v.extent, s.extent, anchor.k.extent)]
    context = MatmulContext(
        name=kernel.name,
        comments=shop.comments,
        parameters=parameter_lines(shop.arguments, kernel.stored),
        batch=_batch_lines(shop, anchor),
        batch_extent=extents[0],
        v_extent=extents[1],
        s_extent=extents[2],
        k_extent=extents[3],
        pack=pack,
        pack_depth_inner=depth_inner,
        rows=rows,
        direct_lines=direct.lines,
        direct_address=direct.value,
        direct_stride=direct.width,
        panel_is_inner=plan.panel_is_inner,
        store=store,
    )
    return context, shop


# --- which side is packed


def choose_sides(schedule: Schedule, kernel: Kernel, anchor: Matmul) -> Plan:
    """The cheaper of the two plans, counted in vector operations at typical sizes."""
    left, right = Side(anchor.lhs, anchor.m), Side(anchor.rhs, anchor.n)
    plans = [
        Plan(packed, rows, _runs_along(kernel, schedule.strides, packed.axis, rows.axis))
        for packed, rows in ((left, right), (right, left))
    ]
    return min(plans, key=lambda plan: _cost(plan, anchor, schedule.strides))


def _cost(plan: Plan, anchor: Matmul, strides: Strides) -> int:
    v, s = (typical(side.axis.extent) for side in (plan.packed, plan.rows))
    k = typical(anchor.k.extent)
    multiply = _padded(v, PANEL) * _padded(s, HEIGHT) * k // PANEL
    pack = v * k * _pack_cost(plan.packed, anchor, strides)
    rows = s * k * -(-v // BLOCK) * _rows_cost(plan.rows, anchor, strides)
    turn = 0 if plan.panel_is_inner else v * s
    return multiply + pack + rows + turn


def _pack_cost(side: Side, anchor: Matmul, strides: Strides) -> int:
    """What an element costs to pack: moves along memory are cheap, gathers are not."""
    parts = split(side.axis, indices((side.value,)))
    value = Rewriter(parts.parts)(side.value)
    axes = (parts.column, anchor.k) if isinstance(value, Load) else (parts.column,)
    return min(_copy_cost(value, axis, strides) for axis in axes)


def _rows_cost(side: Side, anchor: Matmul, strides: Strides) -> int:
    """What an element costs to copy into rows, or to read where it lies."""
    if _row_stride(side, anchor, strides):
        return 0
    return _copy_cost(side.value, anchor.k, strides)


def _copy_cost(value: Value, axis: Axis, strides: Strides) -> int:
    """What an element costs when copied along an axis: 1 if neighbours there are neighbours."""
    loads = [v for v in walk((value,)) if isinstance(v, Load)]
    steps = [slope(dot(x.index, strides[x.buffer]), axis) for x in loads]
    return max((step if step in (1, 2) else SCATTERED for step in steps), default=1)


def _padded(extent: int, block: int) -> int:
    return -(-extent // block) * block


def _runs_along(kernel: Kernel, strides: Strides, packed: Axis, rows: Axis) -> bool:
    """True when more stores and loads of members walk through memory along the packed axis."""
    votes = 0
    for axis, sign in ((packed, 1), (rows, -1)):
        parts = split(axis, _epilogue_indices(kernel, strides))
        for access in accesses(kernel):
            if access.member is not kernel.members[0] or access.is_store:
                offset = access.offset(strides)
                whole = {packed, rows} <= set(offset.leaves())
                weight = 2 if access.is_store else int(whole)
                unit = slope(offset.substitute(parts.parts), parts.column) == 1
                votes += sign * weight * unit
    return votes >= 0


def _epilogue_indices(kernel: Kernel, strides: Strides) -> list[Int]:
    return [
        access.offset(strides)
        for access in accesses(kernel)
        if access.member is not kernel.members[0] or access.is_store
    ]


def _row_stride(side: Side, anchor: Matmul, strides: Strides) -> Int | None:
    """The distance of rows that can be multiplied where they lie: float32, 1 along the depth."""
    load = side.value
    if not isinstance(load, Load) or anchor.operand is not DType.FLOAT32:
        return None
    offset = dot(load.index, strides[load.buffer])
    if slope(offset, anchor.k) != 1:
        return None
    step = offset.substitute({side.axis: Int.of(side.axis) + 1}) - offset
    return None if {side.axis, anchor.k} & set(step.leaves()) else step


# --- walks


def _names(
    anchor: Matmul, others: Mapping[Axis, str], parts: Split, letter: str
) -> dict[Axis, str]:
    names = batch_names(anchor.batch) | dict(others)
    if parts.row is None:
        return names | {parts.column: letter}
    return names | {parts.row: f"{letter}_row", parts.column: f"{letter}_column"}


def _workshop(
    schedule: Schedule, kernel: Kernel, columns: Split, names: Mapping[Axis, str]
) -> Workshop:
    """A workshop for the kernel with its axis split."""
    members = tuple(
        replace(m, binding=tuple((a, e.substitute(columns.parts)) for a, e in m.binding))
        for m in kernel.members
    )
    anchor = kernel.members[0].operation
    own = tuple(Int.of(axis).substitute(columns.parts) for axis in anchor.axes)
    return _TileShop(schedule, replace(kernel, members=members), Frame(names, {}, ()), own)


class _TileShop(Workshop):
    """Members read the product at the kernel's own axes, those of extent 1 too: there the sum is."""

    def __init__(
        self, schedule: Schedule, kernel: Kernel, frame: Frame, own: tuple[Int, ...]
    ) -> None:
        self._own = own
        super().__init__(schedule, kernel, frame, Region(frozenset()), C)

    def bound(self, member: Member, value: Value) -> Value:
        """A member's value in kernel axes."""
        (product,) = targets(self.kernel.members[0].operation)

        def load(moved: Load) -> Value | None:
            return Load(product, self._own, moved.dtype) if moved.buffer == product else None

        return Rewriter({}, load)(super().bound(member, value))


class _Nest:
    """Regions inside each other, for the loops of a template."""

    def __init__(self, shop: Workshop, frame: Frame, levels: Iterable[Iterable[Axis]]) -> None:
        self.regions = [Region(frozenset())]
        for axes in levels:
            self.regions.append(self.regions[-1].open("", frozenset(axes)))
        self.emitter: Emitter = shop.emitter_in(frame, self.regions[-1])

    def lines(self, level: int) -> tuple[str, ...]:
        """The lines of a level, those of inner ones left out."""
        return tuple(item for item in self.regions[level].items if isinstance(item, str))


def _walk(nest: _Nest, shop: Workshop, axis: str, parts: Split, value: str) -> Walk:
    """Levels 0 batch, 1 outer axis, 2 row, 3 column, as the template prints them."""
    names = nest.emitter.frame.names
    return Walk(
        axis=axis,
        row=names[parts.row] if parts.row is not None else "",
        column=names[parts.column],
        width="" if parts.width is None else _extent(shop, parts.width),
        setup=(*nest.lines(0), *nest.lines(1)),
        outer_lines=nest.lines(2),
        row_lines=nest.lines(3),
        lines=nest.lines(4),
        value=value,
    )


def _levels(anchor: Matmul, outer: Axis, parts: Split) -> tuple[tuple[Axis, ...], ...]:
    rows = () if parts.row is None else (parts.row,)
    return (anchor.batch, (outer,), rows, (parts.column,))


def _store(
    shop: Workshop, anchor: Matmul, outer: Axis, columns: Split, names: Mapping[Axis, str]
) -> Walk:
    """What members make of a sum, and its stores."""
    shop.results[anchor.target] = "sum"
    nest = _Nest(shop, Frame(names, {}, ()), _levels(anchor, outer, columns))
    emitter = nest.emitter
    for member in shop.kernel.members:
        for name in targets(member.operation):
            if name not in shop.kernel.stored:
                continue
            value = "sum"
            if isinstance(member.operation, Pointwise):
                value = emitter.value(shop.bound(member, member.operation.value))
            offset = shop.offset_of(name, written_index(member))
            emitter.region.append(emitter.store(name, offset, value, frozenset(names)))
    return _walk(nest, shop, "v" if names[columns.column].startswith("v") else "s", columns, "")


def _pack(
    shop: Workshop, anchor: Matmul, side: Side, strides: Strides
) -> tuple[Walk, bool]:
    """How the packed factor is read, and whether along the depth first."""
    parts = split(side.axis, indices((side.value,)))
    names = _names(anchor, {anchor.k: "k"}, parts, "v")
    value = Rewriter(parts.parts)(side.value)
    depth_inner = _along(value, anchor.k, strides) > _along(value, parts.column, strides)
    rows = () if parts.row is None else (parts.row,)
    levels = (
        (anchor.batch, (), (*rows, parts.column), (anchor.k,))
        if depth_inner
        else _levels(anchor, anchor.k, parts)
    )
    nest = _Nest(shop, Frame(names, {}, ()), levels)
    found = None if depth_inner else window(value, parts.column)
    if found is None:
        text = _factor(nest.emitter, value, anchor.operand)
        return _walk(nest, shop, "v", parts, text), depth_inner
    limits = _limits(nest, found)
    inside = found.value
    copied = isinstance(inside, Load) and _is_copied(inside, parts.column, anchor, shop)
    if copied:
        assert isinstance(inside, Load)
        pointer = shop.arguments.pointer(inside.buffer)
        text = C.address(pointer, nest.emitter.index(shop.offset(inside)))
    else:
        text = _factor(nest.emitter, inside, anchor.operand)
    walk_ = _walk(nest, shop, "v", parts, text)
    return replace(walk_, window=limits, copied=copied), False


def _is_copied(load: Load, axis: Axis, anchor: Matmul, shop: Workshop) -> bool:
    """True for float32 elements that lie side by side along an axis."""
    plain = shop.arguments.dtype(load.buffer) is DType.FLOAT32
    return plain and anchor.operand is DType.FLOAT32 and slope(shop.offset(load), axis) == 1


def _limits(nest: _Nest, found: Window) -> tuple[str, str]:
    """The first column of a row that is inside, and the one after the last."""
    emitter = nest.emitter
    low, high = "column_first", "column_end"
    for limit in found.limits:
        reach = emitter.index(limit.bound - limit.start)
        edge = reach if limit.step == 1 else f"aot_ceil_div({reach}, {limit.step})"
        low = low if limit.is_upper else f"aot_max({low}, {edge})"
        high = f"aot_min({high}, {edge})" if limit.is_upper else high
    conditions = [emitter.value(condition) for condition in found.conditions]
    return low, f"{' & '.join(conditions)} ? {high} : column_first" if conditions else high


def _rows(shop: Workshop, anchor: Matmul, side: Side) -> Walk:
    """How rows are copied that cannot be multiplied where they lie."""
    names = batch_names(anchor.batch) | {side.axis: "s", anchor.k: "k"}
    parts = Split(anchor.k, None, anchor.k, None)
    nest = _Nest(shop, Frame(names, {}, ()), _levels(anchor, side.axis, parts))
    return _walk(nest, shop, "k", parts, _factor(nest.emitter, side.value, anchor.operand))


def _direct(shop: Workshop, anchor: Matmul, side: Side, strides: Strides) -> Walk:
    """The first element of rows that can; ``width`` is their distance, no value if they cannot."""
    step = _row_stride(side, anchor, strides)
    names = batch_names(anchor.batch) | {side.axis: "s", anchor.k: "k_first"}
    nest = _Nest(shop, Frame(names, {}, ()), (anchor.batch, (side.axis, anchor.k), (), ()))
    if step is None:
        return Walk("", "", "", "", (), (), (), (), "")
    assert isinstance(side.value, Load)
    offset = nest.emitter.index(dot(side.value.index, strides[side.value.buffer]))
    stride = nest.emitter.index(step)
    address = C.address(shop.arguments.pointer(side.value.buffer), offset)
    lines = tuple(line for level in range(5) for line in nest.lines(level))
    return Walk("", "", "", stride, (), (), (), lines, address)


def _factor(emitter: Emitter, value: Value, operand: DType) -> str:
    """A factor as it is multiplied: rounded to ``operand`` unless it is stored so."""
    text = emitter.value(value)
    if operand is DType.FLOAT32 or _is_stored_as(value, operand, emitter):
        return text
    return C.cast(text, value.dtype, operand)


def _is_stored_as(value: Value, operand: DType, emitter: Emitter) -> bool:
    """True for elements of buffers of that type, and zeros."""
    match value:
        case Load():
            return emitter.arguments.dtype(value.buffer) is operand
        case Guarded():
            parts = (value.value, value.otherwise)
            return all(_is_stored_as(part, operand, emitter) for part in parts)
        case Const():
            return value.value == 0
        case _:
            return False


def _along(value: Value, axis: Axis, strides: Strides) -> int:
    """How many loads walk through memory along an axis."""
    loads = [v for v in walk((value,)) if isinstance(v, Load)]
    return sum(slope(dot(x.index, strides[x.buffer]), axis) == 1 for x in loads)


def _extent(shop: Workshop, extent: Int) -> str:
    """An extent as text."""
    shop.arguments.use_sizes(extent)
    text = shop.emitter.index(extent)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _batch_lines(shop: Workshop, anchor: Matmul) -> tuple[tuple[str, str], ...]:
    """Each batch axis as a digit of the number ``batch``."""
    lines: list[tuple[str, str]] = []
    below = Int.of(1)
    for axis, name in reversed(batch_names(anchor.batch).items()):
        digit = "batch" if below.constant == 1 else f"batch / {_extent(shop, below)}"
        lines.append((name, f"{digit} % {_extent(shop, axis.extent)}"))
        below = below * axis.extent
    return tuple(reversed(lines))
