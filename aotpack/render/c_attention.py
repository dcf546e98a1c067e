"""Attention in C: packed keys and values, tiles of queries, mask and bias through a slot."""

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis
from aotpack.ir.nodes import Attention, Value
from aotpack.ir.schedule import Kernel, Schedule
from aotpack.render.c_contexts import AttentionContext, Slot
from aotpack.render.c_dialect import C, c_literal
from aotpack.render.c_levels import (
    Nest,
    batch_lines,
    extent_text,
    factor_text,
    setup_lines,
    tile_workshop,
)
from aotpack.render.c_slots import store_members
from aotpack.render.c_split import Split
from aotpack.render.epilogue import batch_names
from aotpack.render.frame import Frame
from aotpack.render.workshop import Workshop


def attention_source(schedule: Schedule, kernel: Kernel) -> tuple[AttentionContext, Workshop]:
    """Everything the template prints, and the workshop that knows the kernel's arguments."""
    o = kernel.anchor
    assert isinstance(o, Attention)
    heads = (o.batch, o.head)
    names = batch_names(heads) | {o.i: "i", o.e: "e"}
    shop = tile_workshop(schedule, kernel, Split(o.e, None, o.e, None), names)
    store = _store(shop, o)
    slots = [
        _factor(shop, o, value, axes)
        for value, axes in ((o.query, (o.i, o.d)), (o.key, (o.j, o.d)), (o.value, (o.j, o.e)))
    ]
    logits = _logits(shop, o)
    batch = batch_lines(shop, heads)
    # Distances from the maximum are scaled rather than logits: they are small, or do not matter.
    late = o.bias is None and o.mask is None and o.scale > 0
    scale = c_literal(o.scale, DType.FLOAT32)
    extents = [extent_text(shop, axis.extent) for axis in (o.i, o.j, o.d, o.e)]
    batches = extent_text(shop, o.batch.extent * o.head.extent)
    context = AttentionContext(
        name=kernel.name,
        comments=shop.comments,
        parameters=setup_lines(shop, kernel.stored),
        batch=batch,
        batch_extent=batches,
        i_extent=extents[0],
        j_extent=extents[1],
        d_extent=extents[2],
        e_extent=extents[3],
        query=slots[0],
        key=slots[1],
        value=slots[2],
        product=_times("row[j - j_first]", "" if late else scale),
        causal=o.causal,
        logits=logits,
        weight=_rounded(_exponential("row[at] - base", scale if late else ""), o.operand),
        kept=_exponential("before - base", scale if late else ""),
        store=store,
    )
    return context, shop


def _times(text: str, factor: str) -> str:
    return f"{text} * {factor}" if factor else text


def _exponential(distance: str, factor: str) -> str:
    return f"aot_exp_float32({_times(f'({distance})', factor)})"


def _nest(shop: Workshop, o: Attention, axes: tuple[Axis, Axis]) -> Nest:
    letters = {o.i: "i", o.j: "j", o.d: "d", o.e: "e"}
    names = batch_names((o.batch, o.head)) | {axis: letters[axis] for axis in axes}
    return Nest(shop, Frame(names, {}, ()), ((o.batch, o.head), axes[:1], axes[1:]))


def _slot(nest: Nest, value: str) -> Slot:
    setup = (*nest.lines(0), *nest.lines(1))
    return Slot(setup, nest.lines(2), nest.lines(3), value)


def _factor(shop: Workshop, o: Attention, value: Value, axes: tuple[Axis, Axis]) -> Slot:
    """How a factor is read."""
    nest = _nest(shop, o, axes)
    return _slot(nest, factor_text(nest.emitter, value, o.operand))


def _logits(shop: Workshop, o: Attention) -> Slot:
    """What becomes of a product, before the softmax."""
    nest = _nest(shop, o, (o.i, o.j))
    text = "product"
    if o.bias is not None:
        text = f"{text} + {nest.emitter.value(o.bias)}"
    if o.mask is not None:
        text = f"{nest.emitter.value(o.mask)} ? {text} : -INFINITY"
    return _slot(nest, text)


def _store(shop: Workshop, o: Attention) -> Slot:
    """What members make of a result, and its stores."""
    shop.results[o.target] = "attended"
    nest = _nest(shop, o, (o.i, o.e))
    store_members(shop, nest.emitter, "attended")
    return _slot(nest, "")


def _rounded(text: str, operand: DType) -> str:
    return text if operand is DType.FLOAT32 else C.cast(text, DType.FLOAT32, operand)
