"""Slots of product templates in C: loads of rows, copied or in place, and the epilogue."""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import slope
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Load
from aotpack.render.c.contexts import AxisLoop, Rows, RunCopy
from aotpack.render.c.dialect import C
from aotpack.render.c.products.levels import (
    LevelRegions,
    extent_text,
    factor_text,
    walk_of,
)
from aotpack.render.c.products.operand_roles import Operand, row_stride
from aotpack.render.c.products.split import Split, indices, split
from aotpack.render.c.products.windows import window_step
from aotpack.render.c.window import limit_texts, slides, window
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.epilogue import batch_names, store_results
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder

NO_LOOP = AxisLoop("", "", "", "", (), (), (), (), "")
IN_PLACE = (DType.FLOAT32, DType.BFLOAT16)  # types of rows that need no copy


def axis_names(
    template_op: Matmul, others: Mapping[Axis, str], parts: Split, letter: str
) -> dict[Axis, str]:
    names = batch_names(template_op.batch) | dict(others)
    if parts.row is None:
        return names | {parts.column: letter}
    return names | {parts.row: f"{letter}_row", parts.column: f"{letter}_column"}


def axis_levels(batch: tuple[Axis, ...], outer: Axis, parts: Split) -> tuple[tuple[Axis, ...], ...]:
    rows = () if parts.row is None else (parts.row,)
    return (batch, (outer,), rows, (parts.column,))


def stored(
    builder: KernelBuilder,
    template_op: Matmul,
    outer: Axis,
    columns: Split,
    names: Mapping[Axis, str],
) -> AxisLoop:
    """The epilogue: members over a sum, and its stores."""
    builder.results[template_op.target] = "sum"
    nest = LevelRegions(
        builder, Frame(names, {}, ()), axis_levels(template_op.batch, outer, columns)
    )
    store_members(builder, nest.emitter)
    return walk_of(
        nest, builder, "v" if names[columns.column].startswith("v") else "s", columns, ""
    )


def store_members(builder: KernelBuilder, emitter: Emitter) -> None:
    """The stores of a template: its result, and what pointwise members make of it."""
    for member in builder.kernel.members:
        store_results(builder, member, emitter, frozenset(emitter.frame.names))


def rows_of(
    builder: KernelBuilder,
    batch: tuple[Axis, ...],
    side: Operand,
    operand: DType,
    kinds: tuple[DType, ...],
) -> Rows:
    """Rows in place if they are stored as one of these types; else float32 copies."""
    copied = copied_rows(builder, batch, side, operand)
    found = [(direct_rows(builder, batch, side, operand, kind), str(kind)) for kind in kinds]
    direct, kind = next((one for one in found if one[0].value), (found[0][0], str(DType.FLOAT32)))
    return Rows(copied, direct, kind)


def copied_rows(
    builder: KernelBuilder, batch: tuple[Axis, ...], side: Operand, operand: DType
) -> AxisLoop:
    """The copy of rows that cannot be multiplied in place, in runs of the depth's last digit."""
    parts = split(side.depth, indices((side.value,)))
    own = (
        {parts.column: "k"} if parts.row is None else {parts.row: "k_row", parts.column: "k_column"}
    )
    names = batch_names(batch) | {side.axis: "s"} | own
    value = Rewriter(parts.parts)(side.value)
    nest = LevelRegions(builder, Frame(names, {}, ()), axis_levels(batch, side.axis, parts))
    found = None if parts.row is None else window(value, parts.column)
    if found is None or found.limits:
        return walk_of(nest, builder, "k", parts, factor_text(nest.emitter, value, operand))
    conditions = " & ".join(map(nest.emitter.value, found.conditions))
    text = factor_text(nest.emitter, found.value, operand)
    return replace(walk_of(nest, builder, "k", parts, text), condition=conditions)


def copied_runs(
    builder: KernelBuilder, batch: tuple[Axis, ...], side: Operand, operand: DType
) -> RunCopy:
    """The copy of rows in runs of the depth's last digit, for all rows of an image in turn.

    A run that reaches over an edge of the image is cut there.
    """
    s, k = (split(axis, indices((side.value,))) for axis in (side.axis, side.depth))
    names = batch_names(batch) | _digits(s, "s") | _digits(k, "k")
    levels = (batch, _rows(s), _rows(k), (s.column,), (k.column,))
    nest = LevelRegions(builder, Frame(names, {}, ()), levels)
    value = Rewriter({**s.parts, **k.parts})(side.value)
    found, limits, is_linear = window(value, k.column), ("", ""), False
    if found is not None and found.moves:
        value, limits = found.value, limit_texts(nest.emitter, found, "begin", "end")
        is_linear = slides(found, s.column)
    copied = isinstance(value, Load) and is_run(value, k.column, operand, builder)
    if copied:
        assert isinstance(value, Load)
        pointer = builder.arguments.pointer(value.buffer)
        text = C.address(pointer, nest.emitter.index(builder.offset(value)))
    else:
        text = factor_text(nest.emitter, value, operand)
    step = window_step(builder, value, found, s, k) if copied else None
    return RunCopy(
        s_row="s_row",
        s_column=names[s.column],
        s_width="" if s.width is None else extent_text(builder, s.width),
        k_row="k_row",
        k_column=names[k.column],
        k_width="" if k.width is None else extent_text(builder, k.width),
        setup=(*nest.lines(0), *nest.lines(1)),
        lines=tuple(nest.lines(level) for level in (2, 3, 4, 5)),
        value=text,
        window=limits,
        slides=is_linear,
        copied=copied,
        step="" if step is None else str(step),
        k_rows="1" if k.row is None else extent_text(builder, k.row.extent),
    )


def _digits(parts: Split, letter: str) -> dict[Axis, str]:
    column = {parts.column: f"{letter}_column"}
    return column if parts.row is None else column | {parts.row: f"{letter}_row"}


def _rows(parts: Split) -> tuple[Axis, ...]:
    return () if parts.row is None else (parts.row,)


def is_run(load: Load, axis: Axis, operand: DType, builder: KernelBuilder) -> bool:
    """True for float32 elements that are contiguous along an axis."""
    plain = builder.arguments.dtype(load.buffer) is DType.FLOAT32 and operand is DType.FLOAT32
    return plain and slope(builder.offset(load), axis) == 1


def direct_rows(
    builder: KernelBuilder, batch: tuple[Axis, ...], side: Operand, operand: DType, stored: DType
) -> AxisLoop:
    """The first element of rows that are multiplied in place; ``width`` is their stride.

    There is no value if they cannot be, or are not stored as ``stored``.
    """
    step = row_stride(side, builder.schedule, operand, stored)
    if step is None:
        return NO_LOOP
    names = batch_names(batch) | {side.axis: "s", side.depth: "k_first"}
    first = element_at(builder, names, batch, side)
    return replace(first, width=builder.emitter.index(step))


def element_at(
    builder: KernelBuilder, names: Mapping[Axis, str], batch: tuple[Axis, ...], side: Operand
) -> AxisLoop:
    """An element of a factor, and the lines before it."""
    assert isinstance(side.value, Load)
    nest = LevelRegions(builder, Frame(names, {}, ()), (batch, (side.axis, side.depth), (), ()))
    offset = nest.emitter.index(builder.offset(side.value))
    address = C.address(builder.arguments.pointer(side.value.buffer), offset)
    lines = tuple(line for level in range(5) for line in nest.lines(level))
    return replace(NO_LOOP, lines=lines, value=address)
