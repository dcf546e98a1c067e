"""Attention in C: tiles of queries; keys and values packed or in rows; mask and bias in a slot."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_in
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Attention
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.c.contexts import AttentionContext, Rows, Slot
from aotpack.render.c.dialect import C
from aotpack.render.c.products.levels import (
    LevelRegions,
    batch_lines,
    extent_text,
    setup_lines,
    tile_builder,
)
from aotpack.render.c.products.operand_roles import Operand
from aotpack.render.c.products.slots import IN_PLACE, copied_rows, rows_of, store_members
from aotpack.render.c.products.split import Split, indices, split
from aotpack.render.c.types import c_literal
from aotpack.render.emit.epilogue import batch_names
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder


def attention_source(schedule: Schedule, kernel: Kernel) -> tuple[AttentionContext, KernelBuilder]:
    """The context of the template, and the kernel's builder."""
    o = kernel.template_op
    assert isinstance(o, Attention)
    heads = (o.batch, o.head)
    names = batch_names(heads) | {o.i: "i", o.e: "e"}
    builder = tile_builder(schedule, kernel, Split(o.e, None, o.e, None), names)
    store = _store(builder, o)
    query = copied_rows(builder, heads, Operand(o.query, o.i, o.d), o.operand)
    key = _read(builder, o, Operand(o.key, o.j, o.d))
    value = _read(builder, o, Operand(o.value, o.j, o.e))
    logits = _logits(builder, o)
    batch = batch_lines(builder, heads)
    # Distances from the maximum are scaled, not logits: they are small, or have no weight.
    late = o.bias is None and o.mask is None and o.scale > 0
    scale = c_literal(o.scale, DType.FLOAT32)
    extents = [extent_text(builder, axis.extent) for axis in (o.i, o.j, o.d, o.e)]
    batches = extent_text(builder, o.batch.extent * o.head.extent)
    context = AttentionContext(
        name=kernel.name,
        comments=builder.comments,
        parameters=setup_lines(builder, kernel.stored),
        batch=batch,
        batch_extent=batches,
        i_extent=extents[0],
        j_extent=extents[1],
        d_extent=extents[2],
        e_extent=extents[3],
        query=query,
        key=key,
        value=value,
        shared_heads=extent_text(builder, _shared_heads(o)),
        product=_times("row[j - j_first]", "" if late else scale),
        causal=o.causal,
        logits=logits,
        weight=_rounded(_exponential("row[at] - base", scale if late else ""), o.operand),
        kept=_exponential("before - base", scale if late else ""),
        store=store,
    )
    return context, builder


def _times(text: str, factor: str) -> str:
    return f"{text} * {factor}" if factor else text


def _exponential(distance: str, factor: str) -> str:
    return f"aot_exp_float32({_times(f'({distance})', factor)})"


def _nest(builder: KernelBuilder, o: Attention, axes: tuple[Axis, Axis]) -> LevelRegions:
    letters = {o.i: "i", o.j: "j", o.d: "d", o.e: "e"}
    names = batch_names((o.batch, o.head)) | {axis: letters[axis] for axis in axes}
    return LevelRegions(builder, Frame(names, {}, ()), ((o.batch, o.head), axes[:1], axes[1:]))


def _slot(nest: LevelRegions, value: str) -> Slot:
    setup = (*nest.lines(0), *nest.lines(1))
    return Slot(setup, nest.lines(2), nest.lines(3), value)


def _read(builder: KernelBuilder, o: Attention, side: Operand) -> Rows:
    """Loads of keys or values."""
    return rows_of(builder, (o.batch, o.head), side, o.operand, IN_PLACE)


def _shared_heads(o: Attention) -> Int:
    """The number of consecutive heads with the same keys and values."""
    factors = (o.key, o.value)
    if o.head not in axes_in(tuple(indices(factors))):
        return o.head.extent
    parts = split(o.head, indices(factors))
    width = parts.width.constant if parts.width is not None else None
    if width is None or not known_multiple(o.head.extent, width):
        return Int.of(1)
    moved = indices(Rewriter(parts.parts)(factor) for factor in factors)
    return Int.of(1 if parts.column in axes_in(tuple(moved)) else width)


def _logits(builder: KernelBuilder, o: Attention) -> Slot:
    """Lines between the product and the softmax: scale, bias, mask."""
    nest = _nest(builder, o, (o.i, o.j))
    text = "product"
    if o.bias is not None:
        text = f"{text} + {nest.emitter.value(o.bias)}"
    if o.mask is not None:
        text = f"{nest.emitter.value(o.mask)} ? {text} : -INFINITY"
    return _slot(nest, text)


def _store(builder: KernelBuilder, o: Attention) -> Slot:
    """The members over a result, and its stores."""
    builder.results[o.target] = "attended"
    nest = _nest(builder, o, (o.i, o.e))
    store_members(builder, nest.emitter)
    return _slot(nest, "")


def _rounded(text: str, operand: DType) -> str:
    return text if operand is DType.FLOAT32 else C.cast(text, DType.FLOAT32, operand)
