"""Two products of few rows with one left factor in one kernel, as those of a gated unit.

    g[n] = sum of x[k] * wg[n, k];  u[n] = sum of x[k] * wu[n, k]     ->     one kernel, with
    y[n] = silu(g[n]) * u[n]                                                 y as its epilogue

The form for few rows (``schedule/tiles/few_rows.py``) keeps the sums of both in registers.
"""

from dataclasses import replace

from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Operation, Program, reads, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Load
from aotpack.schedule.fusion.group import Group
from aotpack.schedule.program.merge_products import can_pair


def with_second_product(group: Group, operation: Operation, program: Program) -> Group | None:
    """The group with another product of its left factor; None if it takes none."""
    products = [m.operation for m in group.members if isinstance(m.operation, Matmul)]
    if len(products) != 1 or not isinstance(operation, Matmul):
        return None
    (first,) = products
    pairs = ((operation.m, first.m), (operation.n, first.n), (operation.k, first.k))
    if not all(known_equal(one.extent, other.extent) for one, other in pairs):
        return None
    if not all(can_pair(one) and _has_weight(one, program) for one in (first, operation)):
        return None
    binding = {own: Int.of(axis) for own, axis in pairs}
    if Rewriter(binding)(operation.lhs) is not first.lhs or operation.operand is not first.operand:
        return None
    read = dict.fromkeys((*group.read, *reads(operation)))
    return replace(
        group,
        members=(*group.members, Member(operation, tuple(binding.items()), outer=False)),
        written=(*group.written, *targets(operation)),
        read=tuple(read),
    )


def _has_weight(product: Matmul, program: Program) -> bool:
    """True if the right factor is a weight [n, k], whose layout no reader chooses."""
    right = product.rhs
    if not isinstance(right, Load) or right.buffer in program.derived:
        return False
    index = (Int.of(product.n), Int.of(product.k))
    return right.buffer in program.weights and right.index == index
