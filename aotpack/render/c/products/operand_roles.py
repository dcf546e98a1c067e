"""The roles of a product's operands: packed in panels or read in rows; the axis of the stores."""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, accesses, axes_in, dot, slope
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div
from aotpack.ir.values import Load, Value, walk
from aotpack.render.c.products.split import indices, split

PANEL, HEIGHT, BLOCK = 32, 4, 128  # of the widest kernel; roles are chosen for it
SHORTEST_RUN = 16  # elements of a row that are copied together
SCATTERED = 6  # the cost of copying an element that is not contiguous


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a product, the axis that counts its rows, and the axis along its rows."""

    value: Value
    axis: Axis
    depth: Axis


@dataclass(frozen=True, slots=True)
class OperandRoles:
    """The packed operand, the operand read in rows, and the axis that stores run along."""

    packed: Operand
    rows: Operand
    panel_is_inner: bool


def operands_of(template_op: Matmul) -> tuple[Operand, Operand]:
    """The left and the right operand."""
    return Operand(template_op.lhs, template_op.m, template_op.k), Operand(
        template_op.rhs, template_op.n, template_op.k
    )


def choose_roles(schedule: Schedule, kernel: Kernel, template_op: Matmul) -> OperandRoles:
    """Weights that lie in panels are packed; else the cheaper roles, by operations on vectors."""
    left, right = operands_of(template_op)
    plans = [
        OperandRoles(packed, rows, _runs_along(kernel, schedule.strides, packed.axis, rows.axis))
        for packed, rows in ((left, right), (right, left))
    ]
    for plan in plans:
        if lies_in_panels(plan.packed, schedule):
            return plan
    return min(plans, key=lambda plan: _cost(plan, template_op, schedule))


def lies_in_panels(side: Operand, schedule: Schedule) -> bool:
    """True for ``[.., axis // PANEL, depth, axis % PANEL]`` in float32, as the schedule packs."""
    load = side.value
    if not isinstance(load, Load) or schedule.program.buffers[load.buffer].dtype != DType.FLOAT32:
        return False
    offset = dot(load.index, schedule.strides[load.buffer])
    if slope(offset, side.depth) != PANEL:
        return False
    lane, panel = Axis("lane", Int.of(PANEL)), Axis("panel", ceil_div(side.axis.extent, PANEL))
    parts = offset.substitute({side.axis: Int.of(panel) * PANEL + Int.of(lane)})
    panel_size = (side.depth.extent * PANEL).constant
    is_alone = panel.extent.constant == 1
    return slope(parts, lane) == 1 and (is_alone or slope(parts, panel) == panel_size)


def _cost(plan: OperandRoles, template_op: Matmul, schedule: Schedule) -> int:
    v, s = (typical(side.axis.extent) for side in (plan.packed, plan.rows))
    k = typical(template_op.k.extent)
    multiply = _padded(v, PANEL) * _padded(s, HEIGHT) * k // PANEL
    pack = v * k * _pack_cost(plan.packed, template_op, schedule.strides)
    rows = s * k * -(-v // BLOCK) * _rows_cost(plan.rows, template_op, schedule)
    turn = 0 if plan.panel_is_inner else v * s
    return multiply + pack + rows + turn


def _pack_cost(side: Operand, template_op: Matmul, strides: Strides) -> int:
    """The cost of packing an element: contiguous copies are cheap, gathers are not."""
    parts = split(side.axis, indices((side.value,)))
    value = Rewriter(parts.parts)(side.value)
    axes = (parts.column, template_op.k) if isinstance(value, Load) else (parts.column,)
    return min(_copy_cost(value, axis, strides) for axis in axes)


def _rows_cost(side: Operand, template_op: Matmul, schedule: Schedule) -> int:
    """The cost of copying an element into rows, or of reading it in place."""
    is_read_in_place = template_op.operand in (DType.FLOAT32, DType.BFLOAT16)
    if is_read_in_place and row_stride(side, schedule, template_op.operand, template_op.operand):
        return 0
    parts = split(template_op.k, indices((side.value,)))
    if parts.width is not None and typical(parts.width) < SHORTEST_RUN:
        return SCATTERED
    return _copy_cost(Rewriter(parts.parts)(side.value), parts.column, schedule.strides)


def _copy_cost(value: Value, axis: Axis, strides: Strides) -> int:
    """The cost of copying an element along an axis: 1 if source and copy are contiguous."""
    loads = [v for v in walk((value,)) if isinstance(v, Load)]
    steps = [slope(dot(x.index, strides[x.buffer]), axis) for x in loads]
    return max((step if step in (1, 2) else SCATTERED for step in steps), default=1)


def _padded(extent: int, block: int) -> int:
    return -(-extent // block) * block


def _runs_along(kernel: Kernel, strides: Strides, packed: Axis, rows: Axis) -> bool:
    """True when more stores and loads of members are contiguous along the packed axis."""
    votes = 0
    for axis, sign in ((packed, 1), (rows, -1)):
        parts = split(axis, epilogue_indices(kernel, strides))
        for access in accesses(kernel):
            if access.member is not kernel.members[0] or access.is_store:
                offset = access.offset(strides)
                whole = {packed, rows} <= set(offset.leaves())
                weight = 2 if access.is_store else int(whole)
                unit = slope(offset.substitute(parts.parts), parts.column) == 1
                votes += sign * weight * unit
    return votes >= 0


def epilogue_indices(kernel: Kernel, strides: Strides) -> list[Int]:
    return [
        access.offset(strides)
        for access in accesses(kernel)
        if access.member is not kernel.members[0] or access.is_store
    ]


def row_stride(side: Operand, schedule: Schedule, operand: DType, stored: DType) -> Int | None:
    """The stride of rows that can be multiplied in place, if they are stored as that type.

    Their elements are 1 apart along the depth, and are multiplied without conversion.
    """
    load = side.value
    if not isinstance(load, Load) or schedule.program.buffers[load.buffer].dtype is not stored:
        return None
    if operand not in (stored, DType.FLOAT32):
        return None
    offset = dot(load.index, schedule.strides[load.buffer])
    if slope(offset, side.depth) != 1:
        return None
    step = Rewriter({side.axis: Int.of(side.axis) + 1}).index(offset) - offset
    return None if {side.axis, side.depth} & axes_in((step,)) else step


def count_along(value: Value, axis: Axis, strides: Strides) -> int:
    """The number of loads that are contiguous along an axis."""
    loads = [v for v in walk((value,)) if isinstance(v, Load)]
    return sum(slope(dot(x.index, strides[x.buffer]), axis) == 1 for x in loads)
