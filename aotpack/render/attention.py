"""Flash attention forward: operand tiles, mask and bias through load slots, then the epilogue."""

import math

from aotpack.ir.facts import known_multiple
from aotpack.ir.integers import Axis
from aotpack.ir.nodes import Attention
from aotpack.ir.schedule import AttentionTile, Kernel, Schedule
from aotpack.render.contexts import AttentionContext
from aotpack.render.emitter import Emitter, Frame
from aotpack.render.epilogue import batch_names, batch_numbers, render_epilogue
from aotpack.render.matmul import precision
from aotpack.render.regions import Region
from aotpack.render.workshop import Workshop

LOG2_E = math.log2(math.e)
SMALLEST_DOT = 16  # elements along any side of a product


def attention_frame(kernel: Kernel, tile: AttentionTile) -> Frame:
    """The i x e tile of the result."""
    anchor = kernel.anchor
    assert isinstance(anchor, Attention)
    return _frame(anchor, tile, {anchor.i: "i", anchor.e: "e"})


def attention_context(
    schedule: Schedule, kernel: Kernel, tile: AttentionTile, shop: Workshop
) -> AttentionContext:
    """Everything the attention template prints, but the name."""
    o = kernel.anchor
    assert isinstance(o, Attention)
    query = _Slot(shop, _frame(o, tile, {o.i: "i", o.d: "d_row"}), o, loop=None)
    key = _Slot(shop, _frame(o, tile, {o.d: "d_column", o.j: "j"}), o, loop=o.j)
    value = _Slot(shop, _frame(o, tile, {o.j: "j_column", o.e: "e"}), o, loop=o.j)
    logits = _Slot(shop, _frame(o, tile, {o.i: "i", o.j: "j"}), o, loop=o.j)
    q = query.emitter.operand(o.query, o.operand, o.d)
    k = key.emitter.operand(o.key, o.operand, o.d)
    v = value.emitter.operand(o.value, o.operand, o.j)
    bias = logits.emitter.value(o.bias) if o.bias is not None else ""
    mask = logits.emitter.value(o.mask) if o.mask is not None else ""
    shop.results[o.target] = "acc"
    epilogue = render_epilogue(kernel, shop, o.axes)
    for axis in (o.batch, o.head, o.i, o.j, o.d, o.e):
        shop.arguments.use_sizes(axis.extent)
    return AttentionContext(
        name=kernel.name,
        comments=shop.comments,
        functions=tuple(shop.functions.values()),
        parameters=tuple(arg.name for arg in shop.arguments.parameters()),
        index_type=shop.index_type,
        batch=batch_numbers((o.batch, o.head), "batch_head"),
        i_extent=str(o.i.extent),
        j_extent=str(o.j.extent),
        d_extent=str(o.d.extent),
        e_extent=str(o.e.extent),
        i_block=tile.i,
        j_block=tile.j,
        d_block=padded(o.d),
        e_block=padded(o.e),
        i_masked=not known_multiple(o.i.extent, tile.i),
        j_masked=not known_multiple(o.j.extent, tile.j),
        d_masked=not known_multiple(o.d.extent, padded(o.d)),
        e_masked=not known_multiple(o.e.extent, padded(o.e)),
        causal=o.causal,
        scale=repr(o.scale * LOG2_E),
        operand=o.operand.facts.triton,
        accumulator=o.operand.accumulator.facts.triton,
        precision=precision(o.operand),
        setup=(*query.setup, *key.setup, *value.setup, *logits.setup),
        query=q,
        key_lines=key.body,
        key=k,
        value_lines=value.body,
        value=v,
        logits_lines=logits.body,
        bias=bias,
        mask=mask,
        epilogue=epilogue,
    )


def padded(axis: Axis) -> int:
    """The block that holds a whole head dimension."""
    return max(SMALLEST_DOT, 1 << (int(axis.extent) - 1).bit_length())


class _Slot:
    """An emitter for one operand's tile, with its lines before and in the loop over keys."""

    def __init__(self, shop: Workshop, frame: Frame, o: Attention, *, loop: Axis | None) -> None:
        inner = frozenset(axis for axis, _ in frame.blocks if axis is loop)
        outer = frozenset(axis for axis, _ in frame.blocks if axis is not loop)
        self._before = Region(frozenset((o.batch, o.head)) | outer)
        self._loop = self._before.open("for", inner) if loop else self._before
        self.emitter: Emitter = shop.emitter_in(frame, self._loop)

    @property
    def setup(self) -> tuple[str, ...]:
        """Lines before the loop."""
        return tuple(item for item in self._before.items if isinstance(item, str))

    @property
    def body(self) -> tuple[str, ...]:
        """Lines in the loop."""
        return tuple(self._loop.lines())


def _frame(o: Attention, tile: AttentionTile, names: dict[Axis, str]) -> Frame:
    blocks = {o.i: tile.i, o.j: tile.j, o.d: padded(o.d), o.e: padded(o.e)}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, blocks[axis])
    }
    named = batch_names((o.batch, o.head)) | names
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))


