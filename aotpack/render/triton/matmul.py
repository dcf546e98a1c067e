"""Matrix products: operand tiles by load slots, pointwise members in the epilogue."""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Value
from aotpack.render.emit.epilogue import batch_names, batch_numbers, render_epilogue
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.contexts import Factor, MatmulContext
from aotpack.render.triton.descriptors import described_factor
from aotpack.render.triton.k_steps import Steps, in_steps, steps_of
from aotpack.render.triton.split_sums import split_context, step_range
from aotpack.render.triton.types import TRITON_TYPES

ROWS_TOGETHER = 8  # rows of tiles in a group, for reuse of columns in L2


def output_frame(kernel: Kernel, tile: MatmulTile) -> Frame:
    """The m x n tile of the result."""
    template_op, tile = _oriented(kernel, tile)
    return _frame(template_op, tile, {template_op.m: "m", template_op.n: "n"})


def _oriented(kernel: Kernel, tile: MatmulTile) -> tuple[Matmul, MatmulTile]:
    """The product whose rows are those of the matrix unit, and its tile."""
    template_op = kernel.template_op
    assert isinstance(template_op, Matmul)
    if not tile.swapped:
        return template_op, tile
    m, n, lhs, rhs = template_op.n, template_op.m, template_op.rhs, template_op.lhs
    swapped = replace(template_op, m=m, n=n, lhs=lhs, rhs=rhs)
    return swapped, replace(tile, m=tile.n, n=tile.m)


def matmul_context(
    schedule: Schedule, kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> MatmulContext:
    """The context of the matmul template, without the name."""
    template_op, tile = _oriented(kernel, tile)
    steps = steps_of(template_op, tile)
    lhs, rhs = (_factor(builder, name, template_op, tile, steps) for name in ("lhs", "rhs"))
    split = split_context(kernel, tile, builder) if tile.splits > 1 else None
    builder.results[template_op.target] = "acc"
    epilogue = render_epilogue(kernel, builder, template_op.axes)
    builder.arguments.use_sizes(points((*template_op.axes, template_op.k)))
    return MatmulContext(
        name=kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        m_extent=str(template_op.m.extent),
        n_extent=str(template_op.n.extent),
        k_extent=str(template_op.k.extent),
        m_block=tile.m,
        n_block=tile.n,
        k_block=tile.k,
        m_masked=template_op.m in builder.emitter.frame.masks,
        n_masked=template_op.n in builder.emitter.frame.masks,
        k_masked=not known_multiple(template_op.k.extent, tile.k),
        by_steps=steps is not None,
        k_range=step_range(template_op, tile, by_steps=steps is not None),
        split=split,
        persistent=tile.most_programs > 0,
        group=ROWS_TOGETHER,
        batch=batch_numbers(template_op.batch, "batch_number"),
        batch_count="".join(f" * ({axis.extent})" for axis in template_op.batch),
        lhs=lhs,
        rhs=rhs,
        accumulator=TRITON_TYPES[template_op.operand.accumulator],
        precision=precision(template_op.operand, tile.precision),
        epilogue=epilogue,
    )


def precision(operand: DType, name: str) -> str:
    """The argument for the precision of float32 products; 16-bit products have only one."""
    return f', input_precision="{name}"' if operand is DType.FLOAT32 else ""


def _frame(template_op: Matmul, tile: MatmulTile, names: dict[Axis, str]) -> Frame:
    blocks = {template_op.m: tile.m, template_op.n: tile.n, template_op.k: tile.k}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, blocks[axis])
    }
    named = batch_names(template_op.batch) | names
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))


def _factor(
    builder: KernelBuilder,
    name: str,
    template_op: Matmul,
    tile: MatmulTile,
    steps: Steps | None,
) -> Factor:
    """The loads of a factor: through a descriptor where tile and factor allow it, or pointers."""
    is_left = name == "lhs"
    value = template_op.lhs if is_left else template_op.rhs
    rows = {template_op.m: "m", template_op.k: "k_row"}
    columns = {template_op.k: "k_column", template_op.n: "n"}
    frame = _frame(template_op, tile, rows if is_left else columns)
    if tile.descriptors:
        starts = {template_op.m: "m_start", template_op.n: "n_start", template_op.k: "k_start"}
        names = batch_names(template_op.batch) | starts
        slot = described_factor(builder, name, value, template_op.operand, frame.blocks, names)
        if slot is not None:
            return slot
    outer = frozenset(axis for axis, _ in frame.blocks if axis is not template_op.k)
    if steps is None:
        inner, before, loop = template_op.k, outer, frozenset((template_op.k,))
    else:
        value = Rewriter({template_op.k: steps.position()})(value)
        frame = in_steps(frame, template_op.k, steps, f"k_step{builder.index_type}")
        inner, before, loop = steps.lane, outer | {steps.lane}, frozenset((steps.number,))
    return _by_pointers(builder, frame, value, template_op, inner, before, loop)


def _by_pointers(
    builder: KernelBuilder,
    frame: Frame,
    value: Value,
    template_op: Matmul,
    inner: Axis,
    outer: frozenset[Axis],
    stepped: frozenset[Axis],
) -> Factor:
    """Lines before the loop over k, lines in it, and the name of the tile."""
    before = Region(frozenset(template_op.batch) | outer)
    loop = before.open("for", stepped)
    emitter = builder.emitter_in(frame, loop)
    name = emitter.operand(value, template_op.operand, inner)
    setup = tuple(item for item in before.items if isinstance(item, str))
    return Factor((), setup, tuple(loop.lines()), name)
