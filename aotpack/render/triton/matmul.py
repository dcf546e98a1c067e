"""Matrix products: operand tiles by load slots, pointwise members in the epilogue."""

from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Value
from aotpack.render.emit.epilogue import (
    batch_names,
    batch_numbers,
    loaded_early,
    render_epilogue,
)
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.contexts import ColumnsContext, Factor, MatmulContext
from aotpack.render.triton.products.descriptors import described_factor
from aotpack.render.triton.products.k_steps import Steps, in_steps, steps_of
from aotpack.render.triton.products.roles import with_roles
from aotpack.render.triton.products.split_sums import split_context, step_range
from aotpack.render.triton.types import TRITON_TYPES

MOST_EARLY = 128  # columns whose bias registers hold during the sums
FEW_COLUMNS = 16  # for which registers hold all that is added
ROWS_TOGETHER = 8  # rows of tiles in a group, for reuse of columns in L2


def output_frame(kernel: Kernel, tile: MatmulTile) -> Frame:
    """The m x n tile of the result; of several blocks of columns the first."""
    template_op, tile = _oriented(kernel, tile)
    return _frame(template_op, tile, tile.columns[0], {template_op.m: "m", template_op.n: "n"})


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
    factors = Factors(builder, template_op, tile, steps)
    lhs, columns = factors.left(), factors.all_columns()
    split = split_context(kernel, tile, builder) if tile.splits > 1 else None
    early = _early(kernel, template_op, tile, builder)
    columns = [replace(one, epilogue=factors.epilogue(one)[len(early) :]) for one in columns]
    builder.arguments.use_sizes(points((*template_op.axes, template_op.k)))
    context = MatmulContext(
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
        lhs=replace(lhs, setup=(*lhs.setup, *early)),
        columns=tuple(columns),
        accumulator=TRITON_TYPES[template_op.operand.accumulator],
        precision=precision(template_op.operand, tile.precision),
    )
    return with_roles(context, template_op.operand, tile, builder) if tile.roles else context


def _early(
    kernel: Kernel, template_op: Matmul, tile: MatmulTile, builder: KernelBuilder
) -> tuple[str, ...]:
    """Loads of the epilogue that come before the sums: of small tiles all, of others columns'.

    A program with one tile would wait for them at its end. Registers hold few of them.
    """
    if tile.swapped:
        is_few, has_room = tile.n <= FEW_COLUMNS, tile.m <= MOST_EARLY
        columns = None if is_few else template_op.n
        return loaded_early(kernel, builder, columns) if has_room else ()
    is_one = not tile.most_programs and tile.splits == 1 and len(tile.columns) == 1
    return loaded_early(kernel, builder, template_op.m) if is_one and tile.n <= MOST_EARLY else ()


def precision(operand: DType, name: str) -> str:
    """The argument for the precision of float32 products; 16-bit products have only one."""
    return f', input_precision="{name}"' if operand is DType.FLOAT32 else ""


def _frame(template_op: Matmul, tile: MatmulTile, columns: int, names: dict[Axis, str]) -> Frame:
    """The frame of a block of ``columns`` of a tile."""
    whole = {template_op.m: tile.m, template_op.n: tile.n, template_op.k: tile.k}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, whole[axis])
    }
    named = batch_names(template_op.batch) | names
    blocks = whole | {template_op.n: columns}
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))


@dataclass(frozen=True, slots=True)
class Factors:
    """Makes the loads of the factors of a product's tile."""

    builder: KernelBuilder
    template_op: Matmul
    tile: MatmulTile
    steps: Steps | None

    def left(self) -> Factor:
        """The rows of a tile."""
        o = self.template_op
        frame = _frame(o, self.tile, self.tile.n, {o.m: "m", o.k: "k_row"})
        return self._loads("lhs", o.lhs, frame, "n_start")

    def columns(self, number: int) -> ColumnsContext:
        """A block of the columns of a tile, without an epilogue."""
        o, widths = self.template_op, self.tile.columns
        suffix = f"_{number}" if number else ""
        names = {o.k: "k_column", o.n: f"n{suffix}"}
        frame = _frame(o, self.tile, widths[number], names)
        offset = sum(widths[:number])
        start = f"(n_start + {offset})" if offset else "n_start"
        rhs = self._loads(f"rhs{suffix}", o.rhs, frame, start)
        return ColumnsContext(suffix, offset, widths[number], rhs, ())

    def all_columns(self) -> list[ColumnsContext]:
        """The blocks of columns, side by side."""
        return [self.columns(number) for number in range(len(self.tile.columns))]

    def epilogue(self, columns: ColumnsContext) -> tuple[str, ...]:
        """What is made of a block of columns."""
        o, builder, emitter = self.template_op, self.builder, self.builder.emitter
        builder.results[o.target] = f"acc{columns.suffix}"
        if columns.offset:
            names = {o.m: "m", o.n: f"n{columns.suffix}"}
            frame = _frame(o, self.tile, columns.block, names)
            emitter = builder.emitter_in(frame, Region(builder.root.axes))
        return render_epilogue(builder.kernel, builder, o.axes, emitter)

    def _loads(self, name: str, value: Value, frame: Frame, n_start: str) -> Factor:
        """Through a descriptor where tile and factor allow it, or pointers."""
        builder, o, steps = self.builder, self.template_op, self.steps
        if self.tile.descriptors:
            starts = {o.m: "m_start", o.n: n_start, o.k: "k_start"}
            whole = {o.m: self.tile.m, o.n: self.tile.n, o.k: self.tile.k}
            sides = [(axis, whole[axis]) for axis, _ in frame.blocks]
            names, lengths = batch_names(o.batch) | starts, dict(frame.blocks)
            slot = described_factor(builder, name, value, o.operand, sides, names, lengths)
            if slot is not None:
                return slot
        outer = frozenset(axis for axis, _ in frame.blocks if axis is not o.k)
        if steps is None:
            return _by_pointers(builder, frame, value, o, o.k, outer, frozenset((o.k,)))
        value = Rewriter({o.k: steps.position()})(value)
        frame = in_steps(frame, o.k, steps, f"k_step{builder.index_type}")
        before, loop = outer | {steps.lane}, frozenset((steps.number,))
        return _by_pointers(builder, frame, value, o, steps.lane, before, loop)


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
