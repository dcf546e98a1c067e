"""Scales of weights made of codes: the scale of a row of the weight moves behind its product.

    y[m, n] = sum of x[m, k] * (q[n, k] * s[n])    ->    p[m, n] = sum of x[m, k] * q[n, k]
                                                         y[m, n] = p[m, n] * s[n]

Codes of 8 bits are numbers of every type of factors, so nothing is rounded in front of the sums,
and a scale is multiplied once for each result. Codes times the scales of groups need no rounding
either. A rounding of the model's own stays where it is, so this comes before spare ones are dropped
(``schedule/program/spare_roundings.py``).
"""

from dataclasses import replace

from aotpack.ir.kernels.access import axes_of
from aotpack.ir.names import free_name
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.program import Buffer, Operation, Program
from aotpack.ir.rounding import is_code
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Load, Value
from aotpack.schedule.program.dead_code import with_operations
from aotpack.schedule.program.merge_products import has_weight


def scale_codes_after_products(program: Program, partition: object = None) -> Program:
    """Move scales of codes behind the products that read them; the same object if none moves.

    A ``partition`` is for all targets, so not for it.
    """
    if partition is not None:
        return program
    buffers, operations = dict(program.buffers), list[Operation]()
    for operation in program.operations:
        scale = _scale(operation, program)
        if scale is None or not isinstance(operation, Matmul):
            operations.append(operation)
        elif operation.k in axes_of((scale,)):
            operations.append(replace(operation, wide=True))
        else:
            operations += _moved(operation, scale, buffers)
    if operations == [*program.operations]:
        return program
    return with_operations(replace(program, buffers=buffers), operations)


def _scale(operation: Operation, program: Program) -> Value | None:
    """What a product's codes are multiplied with: elements of a weight."""
    if not isinstance(operation, Matmul) or operation.batch or not has_weight(operation, program):
        return None
    if program.buffers[operation.target].unfusable:
        return None
    right = operation.rhs
    if not isinstance(right, Apply) or right.op != "mul":
        return None
    codes, scale = right.args
    return scale if is_code(codes) and isinstance(scale, Load) else None


def _moved(product: Matmul, scale: Value, buffers: dict[str, Buffer]) -> tuple[Matmul, Pointwise]:
    """The product of the codes alone, and what scales it; declares the sums."""
    assert isinstance(product.rhs, Apply)
    dtype = product.operand.accumulator
    sums = free_name(f"{product.target}_of_codes", buffers)
    buffers[sums] = Buffer(sums, dtype, buffers[product.target].shape)
    index = (Int.of(product.m), Int.of(product.n))
    value = Apply("mul", (Load(sums, index, dtype), scale), dtype)
    finish = Pointwise(product.target, (product.m, product.n), value, index, product.origin)
    return replace(product, target=sums, rhs=product.rhs.args[0]), finish
