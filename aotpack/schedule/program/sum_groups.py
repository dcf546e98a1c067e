"""Convolutions of groups of few channels are sums: tiles of matrix units would be mostly padding.

    y[g, m, n] = sum over k of x[g, window(m, k)] * w[g, n, k]          a product, n < 8

    ->  for g, m, n: y[g, m, n] = sum over k of x[...] * w[...]         a reduction

Multiplying zeros between the groups of a larger tile would turn infinity into NaN.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import has_digits
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.program import Operation, Program
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.values import Apply, Const, Guarded, Load, Value

MOST_COLUMNS = 8  # channels of a group
MOST_TERMS = 72  # of a sum: lines of a kernel


def sum_groups(program: Program) -> Program:
    """Compute products of windows with few columns as sums; the same object if there is none."""
    operations = tuple(map(_as_sum, program.operations))
    if all(new is old for new, old in zip(operations, program.operations, strict=True)):
        return program
    return replace(program, operations=operations)


def _as_sum(operation: Operation) -> Operation:
    if not isinstance(operation, Matmul) or not is_lean(operation):
        return operation
    wide = operation.operand.accumulator
    term = _term(operation.lhs, operation.rhs, wide)
    if term is None:
        return operation
    (target, axes, k), origin = (operation.target, operation.axes, operation.k), operation.origin
    return Reduction((target,), axes, (k,), "sum", (term,), origin)


def is_lean(product: Matmul) -> bool:
    """True for windows of groups with few columns and terms."""
    few = known_le(product.n.extent, MOST_COLUMNS) and known_le(product.k.extent, MOST_TERMS)
    image = product.lhs.value if isinstance(product.lhs, Guarded) else product.lhs
    return (
        few
        and bool(product.batch)
        and isinstance(image, Load)
        and has_digits(image.index, product.k)
    )


def _term(lhs: Value, rhs: Value, wide: DType) -> Value | None:
    """The product of two elements in the accumulator's type; 0 where there is no image."""
    if isinstance(lhs, Guarded):
        inside = _term(lhs.value, rhs, wide)
        is_zero = isinstance(lhs.otherwise, Const) and lhs.otherwise.value == 0
        if inside is None or not is_zero:
            return None
        return Guarded(lhs.condition, inside, Const(0.0, wide), wide)
    loads = isinstance(lhs, Load) and isinstance(rhs, Load)
    return Apply("mul", (lhs, rhs), wide) if loads and lhs.dtype is rhs.dtype is wide else None
