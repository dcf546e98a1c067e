"""Products with few rows in C: memory-bound, so the other factor is read once, in order."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Matmul
from aotpack.render.c.contexts import GemvContext
from aotpack.render.c.products.levels import batch_lines, extent_text, setup_lines, tile_builder
from aotpack.render.c.products.operand_roles import epilogue_indices, operands_of
from aotpack.render.c.products.slots import IN_PLACE, axis_names, rows_of, stored
from aotpack.render.c.products.split import split
from aotpack.render.emit.kernel_builder import KernelBuilder


def gemv_source(
    schedule: Schedule, kernel: Kernel, short_axis: str
) -> tuple[GemvContext, KernelBuilder]:
    """Everything the template prints, and the builder that knows the kernel's arguments.

    ``short_axis`` is "m" or "n", the axis with few points.
    """
    template_op = kernel.template_op
    assert isinstance(template_op, Matmul)
    left, right = operands_of(template_op)
    rows, columns = (left, right) if short_axis == "m" else (right, left)
    parts = split(columns.axis, epilogue_indices(kernel, schedule.strides))
    names = axis_names(template_op, {rows.axis: "s"}, parts, "v")
    builder = tile_builder(schedule, kernel, parts, names)
    store = stored(builder, template_op, rows.axis, parts, names)
    one = rows_of(builder, template_op.batch, rows, template_op.operand, (DType.FLOAT32,))
    other = rows_of(builder, template_op.batch, columns, template_op.operand, IN_PLACE)
    batches = points(template_op.batch)
    batch = batch_lines(builder, template_op.batch)
    extents = (batches, columns.axis.extent, rows.axis.extent, template_op.k.extent)
    texts = [extent_text(builder, extent) for extent in extents]
    context = GemvContext(
        name=kernel.name,
        comments=builder.comments,
        parameters=setup_lines(builder, kernel.stored),
        batch=batch,
        batch_extent=texts[0],
        v_extent=texts[1],
        s_extent=texts[2],
        k_extent=texts[3],
        few=one,
        many=other,
        store=store,
    )
    return context, builder
