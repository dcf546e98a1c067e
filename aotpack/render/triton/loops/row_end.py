"""Rows that end early: their loops end there, and compare no positions before.

part of a padded row:  for r in [0, length):  a*length + r < whole ? x[a*length + r] : 0
                 ->    for r in [0, min(length, whole - a*length)):  x[a*length + r]
"""

from __future__ import annotations

from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.fold import integer_of
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int, maximum, minimum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value


def ended_early(kernel: Kernel) -> Kernel:
    """The kernel over rows that end where all its reductions have the identity from there on.

    Rows may be empty then. Programs must have one row each. The same object unless every member is
    a reduction with that end.
    """
    x, r = kernel.axes
    end, *others = {_end(member, r) for member in kernel.members}
    if end is None or others:
        return kernel
    shorter = Axis(r.name, minimum(r.extent, maximum(0, end)))
    return replace(
        kernel,
        axes=(x, shorter),
        members=tuple(_unguarded(member, r, shorter) for member in kernel.members),
    )


def _end(member: Member, r: Axis) -> Int | None:
    """The position from which on a reduction's elements are the identity, if there is one."""
    operation = member.operation
    if not isinstance(operation, Reduction) or len(operation.args) != 1:
        return None
    (value,) = operation.args
    if not isinstance(value, Guarded) or not _is_nothing(value.otherwise, operation.kind):
        return None
    in_kernel = Rewriter(dict(member.binding))
    match in_kernel(value.condition):
        case Apply(op="lt", args=(IndexValue(index=position), limit)):
            base = Rewriter({r: 0}).index(position)
            end = integer_of(limit) if limit.dtype.is_integer else None
            is_step = position - base == Int.of(r) and r not in base.leaves()
            return end - base if end is not None and is_step and r not in end.leaves() else None
    return None


def _is_nothing(value: Value, kind: str) -> bool:
    """True for the identity, of kinds whose state is an element or an element and its position."""
    monoid, nothing = MONOIDS[kind], MONOIDS[kind].identities(value.dtype)[0]
    is_kept = len(monoid.states) == 1 or monoid.needs_order
    return is_kept and value is Const(nothing, value.dtype)


def _unguarded(member: Member, r: Axis, shorter: Axis) -> Member:
    """The member over the shorter row, without the condition that its end replaces."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    (value,) = operation.args
    assert isinstance(value, Guarded)
    rewriter = Rewriter({r: Int.of(shorter)})
    binding = tuple((axis, rewriter.index(index)) for axis, index in member.binding)
    return replace(member, operation=replace(operation, args=(value.value,)), binding=binding)
