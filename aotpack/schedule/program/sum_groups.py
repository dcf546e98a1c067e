"""Convolutions of groups of few channels are sums: tiles of matrix units would be mostly padding.

    y[g, m, n] = sum over k of x[g, window(m, k)] * w[g, n, k]          a product, n < 8

    ->  for g, m, n: y[g, m, n] = sum over k of x[...] * w[...]         a reduction

Multiplying zeros between the groups of a larger tile would turn infinity into NaN.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import has_digits
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.program import Operation, Program, loads
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.values import Apply, Const, Guarded, Load, Value

MOST_COLUMNS = 8  # channels of a group
MOST_TERMS = 72  # of a sum: lines of a kernel


def sum_groups(program: Program) -> Program:
    """Compute products of windows with few columns as sums; the same object if there is none."""
    lean = lean_products(program)
    if not lean:
        return program
    operations = (lean.get(operation, operation) for operation in program.operations)
    return replace(program, operations=tuple(operations))


def lean_products(program: Program) -> dict[Operation, Reduction]:
    """Products of groups with few columns and terms, as sums.

    Their rows are read at fixed steps: a kernel with other digits of them could not follow.
    """
    found: dict[Operation, Reduction] = {}
    loose = {load.buffer for one in program.operations for load in loads(one) if _has_sizes(load)}
    for operation in program.operations:
        if isinstance(operation, Matmul) and operation.target not in loose:
            made = _as_sum(operation) if _is_lean(operation) else None
            found |= {operation: made} if made else {}
    return found


def _has_sizes(load: Load) -> bool:
    """True for an index with steps that are sizes of the model."""
    return any(len(monomial) > 1 for index in load.index for monomial, _ in index.terms)


def _as_sum(product: Matmul) -> Reduction | None:
    term = _term(product.lhs, product.rhs, product.operand.accumulator)
    if term is None:
        return None
    return Reduction((product.target,), product.axes, (product.k,), "sum", (term,), product.origin)


def _is_lean(product: Matmul) -> bool:
    """True for windows of groups with few columns and terms."""
    few = known_le(product.n.extent, MOST_COLUMNS) and known_le(product.k.extent, MOST_TERMS)
    image = product.lhs.value if isinstance(product.lhs, Guarded) else product.lhs
    is_window = isinstance(image, Load) and has_digits(image.index, product.k)
    return few and bool(product.batch) and is_window


def _term(lhs: Value, rhs: Value, wide: DType) -> Value | None:
    """The product of two elements in the accumulator's type; 0 where there is no image."""
    if isinstance(lhs, Guarded):
        inside = _term(lhs.value, rhs, wide)
        is_zero = isinstance(lhs.otherwise, Const) and lhs.otherwise.value == 0
        if inside is None or not is_zero:
            return None
        return Guarded(lhs.condition, inside, Const(0.0, wide), wide)
    are_loads = isinstance(lhs, Load) and isinstance(rhs, Load)
    return Apply("mul", (lhs, rhs), wide) if are_loads and lhs.dtype is rhs.dtype is wide else None
