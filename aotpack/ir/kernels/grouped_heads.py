"""Attention whose heads with the same keys form the rows of one tile.

    q[b, h, i], k[b, h // 4], axes b, h, i    ->    q[b, 4*h + r // I, r % I], k[b, h], axes b, h, r

Keys and values are then read once for all of them.
"""

from dataclasses import replace

from aotpack.ir.kernels.access import axes_of
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Attention
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Value


def heads_together(attention: Attention) -> int:
    """The number of consecutive heads with the same keys and values; 1 if it is not constant."""
    heads = attention.head.extent.constant or 1
    factors = (attention.key, attention.value)
    counts = (n for n in range(heads, 1, -1) if heads % n == 0)
    return next((n for n in counts if _share(attention, n, factors)), 1)


def _share(attention: Attention, count: int, factors: tuple[Value, ...]) -> bool:
    """True if ``count`` heads from each multiple of it read the same elements."""
    group = Axis("group", attention.head.extent // count)
    inside = Axis("inside", Int.of(count))
    rewrite = Rewriter({attention.head: Int.of(group) * count + Int.of(inside)})
    return inside not in axes_of(rewrite(factor) for factor in factors)


def with_grouped_heads(kernel: Kernel, count: int) -> tuple[Kernel, Attention]:
    """The kernel and its attention over such axes; both as they were for at most one."""
    o = kernel.template_op
    assert isinstance(o, Attention)
    if count <= 1:
        return kernel, o
    grouped, rewrite = over_grouped_heads(o, count)
    members = (
        replace(member, binding=tuple((axis, rewrite.index(at)) for axis, at in member.binding))
        for member in kernel.members
    )
    axes = (grouped.batch, grouped.head, grouped.i, grouped.j, grouped.d, grouped.e)
    return replace(kernel, axes=axes, members=tuple(members)), grouped


def over_grouped_heads(o: Attention, count: int) -> tuple[Attention, Rewriter]:
    """The attention over such axes, and what replaces its own; itself for at most one."""
    if count <= 1:
        return o, Rewriter({})
    head = Axis(o.head.name, o.head.extent // count)
    row = Axis(o.i.name, o.i.extent * count)
    places = {
        o.head: Int.of(head) * count + Int.of(row) // o.i.extent,
        o.i: Int.of(row) % o.i.extent,
    }
    rewrite = Rewriter(places)
    bias, mask = (None if value is None else rewrite(value) for value in (o.bias, o.mask))
    query, key, value = map(rewrite, (o.query, o.key, o.value))
    grouped = replace(o, head=head, i=row, query=query, key=key, value=value, bias=bias, mask=mask)
    return grouped, rewrite
