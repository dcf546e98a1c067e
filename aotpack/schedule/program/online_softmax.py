"""Online softmax: the maximum of a long row and its sum of exponentials in one pass, not two.

    m[i] = max over k of x[i, k]                ->    m[i], s[i] = softmax over k of x[i, k]
    s[i] = sum over k of exp(x[i, k] - m[i])

Rows that fit in registers stay as they are: their second pass costs nothing.
"""

from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import points
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Operation, Program
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Load, Value
from aotpack.schedule.program.split.split_reduction import reduces_columns

COLUMNS = 16  # of a program that keeps them in registers


def merge_softmax_sums(program: Program, gpu: Gpu) -> Program:
    """Merge the maximum of a long row and its sum of exponentials into one reduction.

    The same object if there is no such pair.
    """
    tops = {
        operation.targets[0]: operation
        for operation in program.operations
        if isinstance(operation, Reduction)
        and operation.kind == "max"
        and _is_long(operation, program, gpu)
    }
    joined: dict[str, Reduction] = {}
    kept: list[Operation] = []
    for operation in program.operations:
        top = _top_of(operation, tops)
        if top is None or top.targets[0] in joined or not isinstance(operation, Reduction):
            kept.append(operation)
            continue
        targets = (*top.targets, *operation.targets)
        joined[top.targets[0]] = replace(top, targets=targets, kind="softmax")
    if not joined:
        return program
    operations = tuple(
        joined.get(operation.targets[0], operation)
        if isinstance(operation, Reduction)
        else operation
        for operation in kept
    )
    return replace(program, operations=operations)


def _is_long(operation: Reduction, program: Program, gpu: Gpu) -> bool:
    """True for a row, or columns of a program, that do not fit in registers."""
    together = COLUMNS if reduces_columns(operation, program) else 1
    return bounds(points(operation.inner))[1] > gpu.longest_row // together


def _top_of(operation: Operation, tops: dict[str, Reduction]) -> Reduction | None:
    """The maximum that a sum of exponentials subtracts, if the reduction is of that form."""
    if not isinstance(operation, Reduction) or operation.kind != "sum":
        return None
    (value,) = operation.args
    if not isinstance(value, Apply) or value.op != "exp":
        return None
    (distance,) = value.args
    if not isinstance(distance, Apply) or distance.op != "sub":
        return None
    element, load = distance.args
    top = tops.get(load.buffer) if isinstance(load, Load) else None
    if top is None or not isinstance(load, Load):
        return None
    if not all(map(_is_own, load.index, operation.axes)):
        return None
    return top if _has_same_elements(element, operation, top) else None


def _is_own(part: Int, axis: Axis) -> bool:
    """True for the axis itself as an index; a dimension of one element has index 0."""
    return part is Int.of(axis) or (axis.extent.constant == 1 and part.constant == 0)


def _has_same_elements(element: Value, operation: Reduction, top: Reduction) -> bool:
    """True when both reduce the same elements in the same order."""
    mine: tuple[Axis, ...] = (*operation.axes, *operation.inner)
    its: tuple[Axis, ...] = (*top.axes, *top.inner)
    if [axis.extent for axis in mine] != [axis.extent for axis in its]:
        return False
    renamed = Rewriter(dict(zip(mine, map(Int.of, its), strict=True)))(element)
    return renamed is top.args[0]
