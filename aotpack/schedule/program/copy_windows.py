"""Convolutions of row-major tensors read a copy, whose memory order the schedule may choose.

    y[m, n] = sum over k of x[n, k % C, window(m, k // C)] * w[n, k]      x is an input: row-major

    ->  c = x                                                             c has channels innermost
        y[m, n] = sum over k of c[n, k % C, window(m, k // C)] * w[n, k]

A window reads each element once for each of its positions, so one pass over the tensor pays. So
it does for rows in steps, as of a 1x1 convolution with a stride, that many columns read (285 us to
143 with the copy, in docs/measurements/h200_convolution_kinds.csv).
Weights have copies of their own, from the lowering.
"""

from dataclasses import replace

from aotpack.ir.kernels.access import dot, has_digits, in_order, local_slope
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Buffer, Operation, Program, loads
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Load
from aotpack.schedule.layout import contiguous_by_contract, is_free_to_permute
from aotpack.schedule.program.insert_copies import copied
from aotpack.schedule.program.sum_groups import lean_products

MANY_COLUMNS = 256  # of several tiles, each of which reads all rows


def copy_windows(program: Program) -> Program:
    """Copy a row-major tensor that windows read along its channels, once for all of them.

    The same object if there is none.
    """
    fixed = contiguous_by_contract(program) - {*program.weights}
    buffers = dict(program.buffers)
    copies: dict[str, str] = {}
    operations: list[Operation] = []
    lean = lean_products(program)
    for operation in program.operations:
        found = () if operation in lean else _windows(operation, program.buffers)
        for name in dict.fromkeys(load.buffer for load in found):
            if name in fixed and name not in copies:
                copy = copied(name, f"{name}_copy", operation.origin, buffers, program.sizes)
                buffers[copy.target] = replace(buffers[copy.target], unfusable=True)
                operations.append(copy)
                copies[name] = copy.target
        operations.append(_reading(operation, found, copies))
    if not copies:
        return program
    return replace(program, operations=tuple(operations), buffers=buffers)


def _windows(operation: Operation, buffers: dict[str, Buffer]) -> tuple[Load, ...]:
    """The loads of a product that step along a dimension that is not innermost in row-major."""
    if not isinstance(operation, Matmul):
        return ()
    return tuple(
        load
        for load in loads(operation)
        if is_free_to_permute(buffers[load.buffer])
        and (has_digits(load.index, operation.k) or _is_stepped(load, operation, buffers))
        and _is_crosswise(load, operation.k, buffers[load.buffer])
    )


def _is_stepped(load: Load, product: Matmul, buffers: dict[str, Buffer]) -> bool:
    """True if rows lie in steps that lanes cannot read together, and many columns read them."""
    buffer = buffers[load.buffer]
    step = local_slope(dot(load.index, in_order(buffer.shape, buffer.order)), product.m)
    return step not in (0, 1) and typical(product.n.extent) >= MANY_COLUMNS


def _is_crosswise(load: Load, k: Axis, buffer: Buffer) -> bool:
    """True if the last digit of ``k`` alone is a dimension of the tensor, not its innermost one."""
    steps = [local_slope(part, k) for part in load.index]
    others = [step for step in steps if step != 0]
    return (
        others == [1] and local_slope(dot(load.index, in_order(buffer.shape, buffer.order)), k) != 1
    )


def _reading(operation: Operation, windows: tuple[Load, ...], copies: dict[str, str]) -> Operation:
    """The operation with its windows over the copies; the same object without any."""
    if not any(load.buffer in copies for load in windows):
        return operation

    def load(one: Load) -> Load | None:
        if one not in windows or one.buffer not in copies:
            return None
        return Load(copies[one.buffer], one.index, one.dtype)

    return map_values(operation, Rewriter({}, load))
