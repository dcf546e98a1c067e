"""Flash attention forward: operand tiles, mask and bias through load slots, then the epilogue."""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.appended_rows import AppendedRow, appended_row, appended_rows, is_at
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.key_range import FARTHEST_SHIFT, KeyBound, is_upper_bound, key_bounds
from aotpack.ir.kernels.key_splits import (
    PART_WORD,
    key_splits,
    padded,
    part_bytes,
    part_rows,
    power_of_two,
    row_tiles,
)
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value, indirect_values, loads_below
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.epilogue import batch_names, batch_numbers, render_epilogue
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.emit.texts import LOG2_E
from aotpack.render.environment import render_function
from aotpack.render.triton.attention_contexts import (
    AttentionContext,
    FirstBlock,
    KeyBlock,
    KeyRangeContext,
    KeySplitContext,
    QueryContext,
)
from aotpack.render.triton.contexts import Factor, TileAxis
from aotpack.render.triton.matmul import precision
from aotpack.render.triton.products.descriptors import described_factor
from aotpack.render.triton.types import TRITON_TYPES

FARTHEST = 2**30  # from the first key
ADDED_AT_ONCE = 8192  # elements of parts in registers


def attention_frame(o: Attention, tile: AttentionTile) -> Frame:
    """The i x e tile of the result; where parts are added, it has the rows of a part."""
    if not tile.most_programs:
        return _frame(o, tile, {o.i: "i", o.e: "e"})
    return _frame(o, replace(tile, i=part_rows(o, tile)), {o.i: "row", o.e: "e"})


def attention_programs(o: Attention, tile: AttentionTile) -> Int:
    """The programs of a launch; a cluster counts as one."""
    return row_tiles(o, tile) * (key_splits(o, tile) // tile.cluster_size)


def attention_context(
    kernel: Kernel, o: Attention, tile: AttentionTile, builder: KernelBuilder
) -> AttentionContext:
    """The context of the attention template, without the name; ``o`` has grouped heads."""
    slots = _Slots(builder, o, tile)
    first, query, blocks = slots.tiles()
    builder.results[o.target] = "whole" if tile.most_programs else "acc"
    keys = slots.range_of_keys()
    split = _split_context(kernel, o, tile, builder) if tile.most_programs else None
    epilogue = render_epilogue(kernel, builder, o.axes)
    for axis in (o.batch, o.head, o.i, o.j, o.d, o.e):
        builder.arguments.use_sizes(axis.extent)
    return AttentionContext(
        name=kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        heads=str(o.batch.extent * o.head.extent),
        batch=batch_numbers((o.batch, o.head), "batch_head"),
        i=_side(o.i, tile.i),
        j=_side(o.j, tile.j),
        d=_side(o.d, padded(o.d)),
        e=_side(o.e, padded(o.e)),
        causal=o.causal,
        natural=o.bias is not None or o.scale <= 0,
        scale=repr(o.scale),
        scale_log2=repr(o.scale * LOG2_E),
        operand=TRITON_TYPES[o.operand],
        accumulator=TRITON_TYPES[o.operand.accumulator],
        precision=precision(o.operand, tile.precision),
        setup=slots.setup,
        query=query,
        first=first,
        blocks=blocks,
        keys=keys,
        sums_late=tile.is_for_few,
        split=split,
        epilogue=epilogue,
    )


def _split_context(
    kernel: Kernel, o: Attention, tile: AttentionTile, builder: KernelBuilder
) -> KeySplitContext:
    """Where the parts are, then their maxima and sums, and the counters of what has arrived."""
    rows = part_rows(o, tile)
    values = rows * padded(o.e)
    tiles = row_tiles(o, tile)
    builder.arguments.use_sizes(tiles)
    side = TileAxis(str(o.i.extent), rows, not known_multiple(o.i.extent, rows))
    if tile.cluster_size > 1:
        programs, size = tile.cluster_size, part_bytes(o, tile)
        _use_shared_parts(builder, size * programs)
        return KeySplitContext(str(programs), side, programs, PART_WORD * values, "parts", "", size)
    (parts,), (counters,) = kernel.exchange, kernel.counters
    pointer = builder.arguments.pointer
    splits = key_splits(o, tile).constant
    return KeySplitContext(
        str(splits) if splits is not None else f"tl.num_programs(0) // ({tiles})",
        side,
        max(1, min(power_of_two(tile.most_programs), ADDED_AT_ONCE // values)),
        tile.most_programs * values,
        pointer(parts.name),
        pointer(counters.name),
    )


def _use_shared_parts(builder: KernelBuilder, size: int) -> None:
    """Define the functions of parts that come into the shared memory of a cluster's program."""
    template, clusters = "device_cluster_attention.py.jinja", "device_turns.py.jinja"
    builder.functions["open_parts"] = render_function(template, "open_parts", size)
    for name in ("send_part", "receive_part"):
        builder.functions[name] = render_function(template, name)
    for name in ("programs_arrive", "programs_wait"):
        builder.functions[name] = render_function(clusters, name)


def _side(axis: Axis, block: int) -> TileAxis:
    return TileAxis(str(axis.extent), block, not known_multiple(axis.extent, block))


def _kinds_of_blocks(o: Attention, tile: AttentionTile) -> tuple[bool, ...]:
    """First the blocks that every query sees whole, then those at the edge, if there can be any.

    The block of an appended row is one of the latter.
    """
    edges = o.causal or is_upper_bound(o) or not known_multiple(o.j.extent, tile.j)
    edges |= bool(appended_rows(o))
    return (False, True) if edges else (False,)


class _Slots:
    """Emits the operands' tiles; lines that do not depend on keys go before the loops."""

    def __init__(self, builder: KernelBuilder, o: Attention, tile: AttentionTile) -> None:
        self._builder, self._o, self._tile = builder, o, tile
        outer = frozenset((o.batch, o.head, o.i, o.d, o.e))
        self._described: dict[str, Factor] = {}
        self._rows = appended_rows(o)
        self._early = Region(outer)
        self._before = {name: Region(outer) for name in ("query", "key", "value", "logits")}
        self._range: KeyRangeContext | None = None

    @property
    def setup(self) -> tuple[str, ...]:
        """Lines before the loops."""
        items = (item for region in self._before.values() for item in region.items)
        lines = tuple(item for item in items if isinstance(item, str))
        made = (line for one in self._described.values() for line in (*one.before, *one.setup))
        return (*lines, *made)

    def tiles(self) -> tuple[FirstBlock | None, QueryContext, tuple[KeyBlock, ...]]:
        """The first block, the queries, and each kind of block."""
        kinds = _kinds_of_blocks(self._o, self._tile)
        first, query = self.first_block(), self.query()
        return first, query, tuple(self.block(edge=edge) for edge in kinds)

    def first_block(self) -> FirstBlock | None:
        """The first block of a program, whose cached rows are requested before the wait.

        None where something that says which rows these are is made by an earlier launch.
        """
        o, program = self._o, self._builder.schedule.program
        known = [row.position for row in self._rows]
        for bound in key_bounds(o):
            known += [bound.value, *indirect_values((bound.shift,))]
        read = loads_below((*known, *(row.cached for row in self._rows)))
        given = {*program.inputs, *program.weights}
        if not self._tile.keys_first or not {x.buffer for x in read} <= given:
            return None
        self._range = self._range_in(self._early)
        requests = self._early.open(None, frozenset((o.j,)))
        for row, names, inner in zip(self._rows, self._sides, (o.d, o.j), strict=True):
            frame = _frame(o, self._tile, names)
            masks = {**frame.masks, o.j: f"{names[o.j]}_mask"}
            emitter = self._builder.emitter_in(replace(frame, masks=masks), requests)
            emitter.value(row.position)  # named before the wait, for the lines behind it
            requests.names[row] = emitter.operand(row.cached, o.operand, inner)
        for region in self._before.values():
            region.names.update(self._early.names)
        setup = tuple(item for item in self._early.items if isinstance(item, str))
        return FirstBlock(setup, tuple(requests.lines()), self.block(edge=True, known=requests))

    @property
    def _sides(self) -> tuple[dict[Axis, str], dict[Axis, str]]:
        """The names of the axes in the tiles of keys and values."""
        o = self._o
        return {o.d: "d_column", o.j: "j"}, {o.j: "j_column", o.e: "e"}

    def query(self) -> QueryContext:
        """The query tile, loaded once; for few queries, with each block of keys (lines of a step).

        A load before the loop would be awaited before keys are requested. Factors in float32 are
        split into parts, which take too many registers in the loop.
        """
        o = self._o
        is_stepped = self._tile.is_for_few and self._is_loaded(o.query)
        frame = _frame(o, self._tile, {o.i: "i", o.d: "d_step" if is_stepped else "d_row"})
        before = self._before["query"]
        if not is_stepped:
            emitter = self._builder.emitter_in(frame, before)
            return QueryContext((), emitter.operand(o.query, o.operand, o.d))
        step = Region(before.axes)
        name = self._builder.emitter_in(frame, step).operand(o.query, o.operand, o.d)
        return QueryContext(tuple(step.lines()), name)

    def _is_loaded(self, value: Value) -> bool:
        """True for elements of the product's type, of 16 bits, that are in memory."""
        if not isinstance(value, Load) or self._builder.resolve(value) is not None:
            return False
        if self._o.operand is DType.FLOAT32:
            return False
        return self._builder.arguments.dtype(value.buffer) is self._o.operand

    def block(self, *, edge: bool, known: Region | None = None) -> KeyBlock:
        """One step over keys; without ``edge`` no key is checked against the end.

        Cached rows that are ``known`` there are not loaded again.
        """
        o = self._o
        columns, rows = self._sides
        key_lines, key = self._factor("key", columns, o.key, o.d, edge=edge, known=known)
        value_lines, value = self._factor("value", rows, o.value, o.j, edge=edge, known=known)
        loop, emitter = self._loop("logits", {o.i: "i", o.j: "j"}, edge=edge)
        bias = emitter.value(o.bias) if o.bias is not None else ""
        is_masked = o.mask is not None and (edge or o.causal or not is_upper_bound(o))
        mask = emitter.value(o.mask) if is_masked and o.mask is not None else ""
        logits_lines = tuple(loop.lines())
        return KeyBlock(edge, key_lines, key, value_lines, value, logits_lines, bias, mask)

    def range_of_keys(self) -> KeyRangeContext:
        """The range that the mask allows; in causal attention it follows from the queries."""
        return self._range or self._range_in(self._before["logits"])

    def _range_in(self, region: Region) -> KeyRangeContext:
        o = self._o
        bounds = () if o.causal else key_bounds(o)
        upper = tuple(one for one in bounds if one.is_upper)
        lowest = tuple(self._bound(one, "min", region) for one in bounds if not one.is_upper)
        before = (KeyBound(row.position, Int.of(-1), is_upper=True) for row in self._rows)
        clear = (*(upper if is_upper_bound(o) else ()), *dict.fromkeys(before))
        return KeyRangeContext(
            lowest,
            tuple(self._bound(one, "max", region) for one in upper),
            tuple(self._bound(one, "min", region) for one in clear),
        )

    def _bound(self, bound: KeyBound, extreme: str, region: Region) -> str:
        """One number for all rows of the tile; those past the end count with a load of 0."""
        frame = _frame(self._o, self._tile, {self._o.i: "i", self._o.j: "j"})
        emitter = self._builder.emitter_in(frame, region)
        text = emitter.value(bound.value)
        text = f"tl.cast({text}, tl.int64)"
        if bound.shift.constant != 0:  # positions may begin anywhere, as times do
            text = f"{_clamped(text, FARTHEST_SHIFT)} + {emitter.index(bound.shift)}"
        text = _clamped(text, FARTHEST)
        if self._o.i in emitter.needs(bound.value) | emitter.index_needs(bound.shift):
            text = f"tl.{extreme}({text})"
        return text

    def _factor(
        self,
        slot: str,
        names: dict[Axis, str],
        value: Value,
        inner: Axis,
        *,
        edge: bool,
        known: Region | None,
    ) -> tuple[tuple[str, ...], str]:
        """Lines of a step, and what they load: through a descriptor if the tile asks for it."""
        if self._tile.descriptors and slot not in self._described:
            o = self._o
            starts = batch_names((o.batch, o.head)) | {o.j: "j_start", o.d: "0", o.e: "0"}
            sides = _frame(o, self._tile, names).blocks
            made = described_factor(self._builder, slot, value, o.operand, sides, starts)
            if made is not None:
                self._described[slot] = made
        if slot in self._described:
            return self._described[slot].body, slot
        loop, emitter = self._loop(slot, names, edge=edge)
        row = appended_row(value, self._o)
        if row is None:
            name = emitter.operand(value, self._o.operand, inner)
        elif not edge:
            name = emitter.operand(row.cached, self._o.operand, inner)
        else:
            name = self._chosen(emitter, row, inner, known)
        return tuple(loop.lines()), name

    def _chosen(self, emitter: Emitter, row: AppendedRow, inner: Axis, known: Region | None) -> str:
        """The tile of cached rows with the new one at its place."""
        operand, dialect = self._o.operand, emitter.dialect
        cached = known.names[row] if known else emitter.operand(row.cached, operand, inner)
        is_new = emitter.value(is_at(self._o.j, row))
        new = emitter.value(row.row)
        if inner in emitter.frame.masks:
            new = dialect.where(emitter.frame.masks[inner], new, "0.0")
        new = dialect.cast(f"({new})", row.row.dtype, operand)
        return emitter.once(dialect.where(is_new, new, cached), operand)

    def _loop(self, slot: str, names: dict[Axis, str], *, edge: bool) -> tuple[Region, Emitter]:
        frame = _frame(self._o, self._tile, names)
        if not edge:
            masks = {axis: mask for axis, mask in frame.masks.items() if axis is not self._o.j}
            frame = replace(frame, masks=masks)
        before = self._before[slot]
        before.close()
        loop = before.open("for", frozenset((self._o.j,)))
        return loop, self._builder.emitter_in(frame, loop)


def _clamped(text: str, most: int) -> str:
    return f"tl.minimum(tl.maximum({text}, {-most}), {most})"


def _frame(o: Attention, tile: AttentionTile, names: dict[Axis, str]) -> Frame:
    blocks = {o.i: tile.i, o.j: tile.j, o.d: padded(o.d), o.e: padded(o.e)}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, blocks[axis])
    }
    named = batch_names((o.batch, o.head)) | names
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))
