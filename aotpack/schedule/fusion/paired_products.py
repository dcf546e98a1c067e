"""Products of few rows that share a kernel: those of a gated unit, and sums of the rows.

    g[n] = sum of x[k] * wg[n, k];  u[n] = sum of x[k] * wu[n, k]     ->     one kernel, with
    y[n] = silu(g[n]) * u[n]                                                 y as its epilogue

    s = sum of x[k] ** 2;  p[n] = sum of x[k] * w[n, k]           ->     one kernel, with
    y[n] = p[n] * rsqrt(s)                                               y as its epilogue

The form for few rows (``schedule/tiles/few_rows.py``) keeps the sums of both in registers. Each
program makes the sums of the rows (``schedule/fusion/late_scales.py``), which it reads anyway.
"""

from dataclasses import replace

from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.program import Operation, Program, reads, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import walk
from aotpack.schedule.fusion.group import Group
from aotpack.schedule.fusion.late_scales import row_binding, row_loads
from aotpack.schedule.program.merge_products import can_pair, has_weight


def with_second_product(group: Group, operation: Operation, program: Program) -> Group | None:
    """The group with another product of its left factor; None if it takes none."""
    products = [m.operation for m in group.members if isinstance(m.operation, Matmul)]
    if len(products) != 1 or not isinstance(operation, Matmul):
        return None
    (first,) = products
    pairs = ((operation.m, first.m), (operation.n, first.n), (operation.k, first.k))
    if not all(known_equal(one.extent, other.extent) for one, other in pairs):
        return None
    if not all(can_pair(one) and has_weight(one, program) for one in (first, operation)):
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


def with_statistic(group: Group, operation: Operation, program: Program) -> Group | None:
    """The group of a product with a sum over its rows; None if it takes none."""
    if not isinstance(operation, Reduction) or operation.targets[0] in program.results:
        return None
    product = group.members[0].operation
    if not isinstance(product, Matmul) or len(group.members) != 1:
        return None
    if not can_pair(product) or not has_weight(product, program):
        return None
    if operation.kind != "sum" or len(operation.inner) != 1:
        return None
    sides = ((points(operation.axes), product.m), (points(operation.inner), product.k))
    if not all(known_equal(size, axis.extent) for size, axis in sides):
        return None
    moved = row_loads(operation, product)
    if not moved or not moved <= {*walk((product.lhs,))}:
        return None
    binding = tuple(row_binding(operation, product).items())
    return replace(
        group,
        members=(*group.members, Member(operation, binding, outer=False)),
        written=(*group.written, *targets(operation)),
    )
