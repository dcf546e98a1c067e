"""Flash attention forward: operand tiles, mask and bias through load slots, then the epilogue."""

from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Value
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.epilogue import batch_names, batch_numbers, render_epilogue
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.emit.texts import LOG2_E
from aotpack.render.triton.contexts import AttentionContext, KeyBlock, TileAxis
from aotpack.render.triton.matmul import precision
from aotpack.render.triton.types import TRITON_TYPES

SMALLEST_DOT = 16  # elements along any side of a product


def attention_frame(kernel: Kernel, tile: AttentionTile) -> Frame:
    """The i x e tile of the result."""
    template_op = kernel.template_op
    assert isinstance(template_op, Attention)
    return _frame(template_op, tile, {template_op.i: "i", template_op.e: "e"})


def attention_context(
    schedule: Schedule, kernel: Kernel, tile: AttentionTile, builder: KernelBuilder
) -> AttentionContext:
    """The context of the attention template, without the name."""
    o = kernel.template_op
    assert isinstance(o, Attention)
    slots = _Slots(builder, o, tile)
    query = slots.query()
    blocks = tuple(slots.block(edge=edge) for edge in _kinds_of_blocks(o, tile))
    builder.results[o.target] = "acc"
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
        natural=o.mask is not None or o.bias is not None or o.scale <= 0,
        scale=repr(o.scale),
        scale_log2=repr(o.scale * LOG2_E),
        operand=TRITON_TYPES[o.operand],
        accumulator=TRITON_TYPES[o.operand.accumulator],
        precision=precision(o.operand, tile.precision),
        setup=slots.setup,
        query=query,
        blocks=blocks,
        epilogue=epilogue,
    )


def _side(axis: Axis, block: int) -> TileAxis:
    return TileAxis(str(axis.extent), block, not known_multiple(axis.extent, block))


def _kinds_of_blocks(o: Attention, tile: AttentionTile) -> tuple[bool, ...]:
    """First the blocks that every query sees whole, then those at the edge, if there can be any."""
    edges = o.causal or not known_multiple(o.j.extent, tile.j)
    return (False, True) if edges else (False,)


def padded(axis: Axis) -> int:
    """The block that covers a head dimension."""
    return max(SMALLEST_DOT, 1 << (int(axis.extent) - 1).bit_length())


class _Slots:
    """Emits the operands' tiles; lines that do not depend on keys go before the loops."""

    def __init__(self, builder: KernelBuilder, o: Attention, tile: AttentionTile) -> None:
        self._builder, self._o, self._tile = builder, o, tile
        outer = frozenset((o.batch, o.head, o.i, o.d, o.e))
        self._before = {name: Region(outer) for name in ("query", "key", "value", "logits")}

    @property
    def setup(self) -> tuple[str, ...]:
        """Lines before the loops."""
        items = (item for region in self._before.values() for item in region.items)
        return tuple(item for item in items if isinstance(item, str))

    def query(self) -> str:
        """The query tile, loaded once."""
        o = self._o
        frame = _frame(o, self._tile, {o.i: "i", o.d: "d_row"})
        emitter = self._builder.emitter_in(frame, self._before["query"])
        return emitter.operand(o.query, o.operand, o.d)

    def block(self, *, edge: bool) -> KeyBlock:
        """One step over keys; without ``edge`` no key is checked against the end."""
        o = self._o
        key_lines, key = self._emit("key", {o.d: "d_column", o.j: "j"}, o.key, o.d, edge=edge)
        names = {o.j: "j_column", o.e: "e"}
        value_lines, value = self._emit("value", names, o.value, o.j, edge=edge)
        loop, emitter = self._loop("logits", {o.i: "i", o.j: "j"}, edge=edge)
        bias = emitter.value(o.bias) if o.bias is not None else ""
        mask = emitter.value(o.mask) if o.mask is not None else ""
        logits_lines = tuple(loop.lines())
        return KeyBlock(edge, key_lines, key, value_lines, value, logits_lines, bias, mask)

    def _emit(
        self, slot: str, names: dict[Axis, str], value: Value, inner: Axis, *, edge: bool
    ) -> tuple[tuple[str, ...], str]:
        loop, emitter = self._loop(slot, names, edge=edge)
        name = emitter.operand(value, self._o.operand, inner)
        return tuple(loop.lines()), name

    def _loop(self, slot: str, names: dict[Axis, str], *, edge: bool) -> tuple[Region, Emitter]:
        frame = _frame(self._o, self._tile, names)
        if not edge:
            masks = {axis: mask for axis, mask in frame.masks.items() if axis is not self._o.j}
            frame = replace(frame, masks=masks)
        before = self._before[slot]
        before.close()
        loop = before.open("for", frozenset((self._o.j,)))
        return loop, self._builder.emitter_in(frame, loop)


def _frame(o: Attention, tile: AttentionTile, names: dict[Axis, str]) -> Frame:
    blocks = {o.i: tile.i, o.j: tile.j, o.d: padded(o.d), o.e: padded(o.e)}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, blocks[axis])
    }
    named = batch_names((o.batch, o.head)) | names
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))
