"""Matrix products in C: one factor packed in panels, the other read in rows, members on the tile.

The memory layouts of both factors and of the stores decide which factor is packed, and along which
axis results are stored: convolutions pack their windows, linears the narrower factor. Two bfloat16
factors are packed and read in pairs along the depth, where a processor multiplies pairs.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Load
from aotpack.render.c.contexts import AxisLoop, MatmulContext
from aotpack.render.c.dialect import C
from aotpack.render.c.products.levels import (
    LevelRegions,
    batch_lines,
    extent_text,
    factor_text,
    setup_lines,
    tile_builder,
    walk_of,
)
from aotpack.render.c.products.operand_roles import (
    BLOCK,
    Operand,
    choose_roles,
    count_along,
    epilogue_indices,
    lies_in_panels,
)
from aotpack.render.c.products.slots import (
    NO_LOOP,
    axis_levels,
    axis_names,
    copied_runs,
    direct_rows,
    element_at,
    is_run,
    stored,
)
from aotpack.render.c.products.split import indices, split
from aotpack.render.c.window import limit_texts, window
from aotpack.render.emit.epilogue import batch_names
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder

FLOAT32, BFLOAT16 = DType.FLOAT32, DType.BFLOAT16


def matmul_source(schedule: Schedule, kernel: Kernel) -> tuple[MatmulContext, KernelBuilder]:
    """The context of the template, and the kernel's builder."""
    template_op = kernel.template_op
    assert isinstance(template_op, Matmul)
    plan = choose_roles(schedule, kernel, template_op)
    v, s = plan.packed.axis, plan.rows.axis
    inner, outer = (v, s) if plan.panel_is_inner else (s, v)
    columns = split(inner, epilogue_indices(kernel, schedule.strides))
    names = axis_names(
        template_op, {outer: "s" if outer is s else "v"}, columns, "v" if inner is v else "s"
    )
    builder = tile_builder(schedule, kernel, columns, names)
    store = stored(builder, template_op, outer, columns, names)
    panels, pack, depth_inner = _packed(builder, template_op, plan.packed)
    rows = copied_runs(builder, template_op.batch, plan.rows, template_op.operand)
    kind = BFLOAT16 if template_op.operand is BFLOAT16 else FLOAT32
    direct = direct_rows(builder, template_op.batch, plan.rows, template_op.operand, kind)
    batch = batch_lines(builder, template_op.batch)
    batches = points(template_op.batch)
    extents = [extent_text(builder, e) for e in (batches, v.extent, s.extent, template_op.k.extent)]
    context = MatmulContext(
        name=kernel.name,
        comments=builder.comments,
        parameters=setup_lines(builder, kernel.stored),
        batch=batch,
        batch_extent=extents[0],
        v_extent=extents[1],
        s_extent=extents[2],
        k_extent=extents[3],
        bounds=_bounds(v.extent),
        panels=panels,
        pack=pack,
        pack_depth_inner=depth_inner,
        rows=rows,
        direct=direct,
        in_pairs=kind is BFLOAT16,
        panel_is_inner=plan.panel_is_inner,
        store=store,
    )
    return context, builder


def _bounds(columns: Int) -> tuple[str, str]:
    """The first column of a tile and the one behind its last: loops of known length are short."""
    count = columns.constant
    if count is not None and count <= BLOCK:
        return "0", str(count)
    is_even = count is not None and count % BLOCK == 0
    return "v_first", "v_first + AOT_TILE_COLUMNS" if is_even else "v_end"


def _packed(
    builder: KernelBuilder, template_op: Matmul, side: Operand
) -> tuple[AxisLoop, AxisLoop, bool]:
    """The first element of panels that lie in memory, or how to pack them, as ``_pack``."""
    if not lies_in_panels(side, builder.schedule):
        return NO_LOOP, *_pack(builder, template_op, side, builder.schedule.strides)
    names = batch_names(template_op.batch) | {side.axis: "v_first", side.depth: "k_first"}
    return element_at(builder, names, template_op.batch, side), NO_LOOP, False


def _pack(
    builder: KernelBuilder, template_op: Matmul, side: Operand, strides: Strides
) -> tuple[AxisLoop, bool]:
    """The loads of the packed factor, and whether they go along the depth first."""
    parts = split(side.axis, indices((side.value,)))
    names = axis_names(template_op, {template_op.k: "k"}, parts, "v")
    value = Rewriter(parts.parts)(side.value)
    depth_inner = count_along(value, template_op.k, strides) > count_along(
        value, parts.column, strides
    )
    rows = () if parts.row is None else (parts.row,)
    levels = (
        (template_op.batch, (), (*rows, parts.column), (template_op.k,))
        if depth_inner
        else axis_levels(template_op.batch, template_op.k, parts)
    )
    nest = LevelRegions(builder, Frame(names, {}, ()), levels)
    found = None if depth_inner else window(value, parts.column)
    if found is None or not found.moves:
        text = factor_text(nest.emitter, value, template_op.operand)
        return walk_of(nest, builder, "v", parts, text), depth_inner
    limits = limit_texts(nest.emitter, found, "column_first", "column_end")
    inside = found.value
    copied = isinstance(inside, Load) and is_run(inside, parts.column, template_op.operand, builder)
    if copied:
        assert isinstance(inside, Load)
        pointer = builder.arguments.pointer(inside.buffer)
        text = C.address(pointer, nest.emitter.index(builder.offset(inside)))
    else:
        text = factor_text(nest.emitter, inside, template_op.operand)
    walk_ = walk_of(nest, builder, "v", parts, text)
    return replace(walk_, window=limits, copied=copied), False
