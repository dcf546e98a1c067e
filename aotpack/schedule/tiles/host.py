"""Variants of kernels for CPUs: contiguous elements go into one vector."""

from dataclasses import replace

from aotpack.ir.kernels.access import Strides, accesses, dot, local_slope, slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.kernels.tiles import HostTile, Variant
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import Atom, Axis, Int, Quotient, Remainder
from aotpack.ir.values import Load, Value, walk
from aotpack.schedule.layout import WIDEST_STEP
from aotpack.schedule.program.weight_panels import PANEL

HOST_ARCH = (0, 0)
# Rows of a product up to which dot products are quicker than packing
# (docs/decisions/023-own-c-kernels.md).
FEW = 16
LONGEST_WINDOW = 64  # elements of a row
PACKED = Variant(HostTile(), *HOST_ARCH, Int.of(1), None)


def host_variants(
    kernel: Kernel, strides: Strides, *, is_across: bool, is_either: bool
) -> tuple[Variant, ...]:
    """The CPU variants of a kernel; ``is_across``: its bytes are contiguous across its rows.

    ``is_either``: its lanes may be along or across.
    """
    if isinstance(kernel.template_op, Matmul):
        return _product_variants(kernel.template_op, strides)
    if isinstance(kernel.template_op, Attention):
        return _attention_variants(kernel.template_op, strides)
    tile, other = HostTile("x" if is_across else "r"), HostTile("r" if is_across else "x")
    return (Variant(tile, *HOST_ARCH, Int.of(1), None, others=(other,) if is_either else ()),)


def _product_variants(template_op: Matmul, strides: Strides) -> tuple[Variant, ...]:
    """Dot products for few rows or columns, if the other factor is contiguous along its depth.

    Weights in panels have lanes across the depth, so they are never read for dot products.
    """
    packed = PACKED
    if any(
        _lies_in_panels(one, template_op.k, strides) for one in (template_op.lhs, template_op.rhs)
    ):
        return (packed,)
    for name, axis, other in (
        ("m", template_op.m, template_op.rhs),
        ("n", template_op.n, template_op.lhs),
    ):
        low, high = bounds(axis.extent)
        if low > 4 * FEW or not _runs_along(other, template_op.k, strides):
            continue
        few = Variant(
            HostTile(short_axis=name), *HOST_ARCH, axis.extent, None, others=(packed.tile,)
        )
        if high <= FEW:
            return (few,)
        if low <= FEW:
            return (replace(few, at_most=FEW), packed)
        if high <= 4 * FEW and not packed.others:
            packed = replace(packed, others=(few.tile,))
    return (packed,)


def _lies_in_panels(value: Value, axis: Axis, strides: Strides) -> bool:
    return isinstance(value, Load) and slope(dot(value.index, strides[value.buffer]), axis) == PANEL


def _attention_variants(template_op: Attention, strides: Strides) -> tuple[Variant, ...]:
    """Dot products for few queries, if keys and values are contiguous along their depths."""
    low, high = bounds(template_op.i.extent)
    rows = ((template_op.key, template_op.d), (template_op.value, template_op.e))
    if low > FEW or not all(_runs_along(value, axis, strides) for value, axis in rows):
        return (PACKED,)
    few = Variant(
        HostTile(short_axis="i"), *HOST_ARCH, template_op.i.extent, None, others=(PACKED.tile,)
    )
    return (few,) if high <= FEW else (replace(few, at_most=FEW), PACKED)


def _runs_along(value: Value, axis: Axis, strides: Strides) -> bool:
    """True when every load that depends on an axis is contiguous along it."""
    loads = [part for part in walk((value,)) if isinstance(part, Load)]
    steps = [slope(dot(load.index, strides[load.buffer]), axis) for load in loads]
    return 1 in steps and all(step in (0, 1) for step in steps)


def is_across(kernel: Kernel, program: Program, strides: Strides) -> bool:
    """True when more bytes are contiguous across the rows of a reduction than along them.

    Rows count as neighbours along any of their digits: images may have channels innermost.
    """
    if is_window(kernel, strides):
        return True
    x, r = kernel.axes
    votes = {x: 0, r: 0}
    for access in accesses(kernel):
        offset = access.offset(strides)
        size = typical(buffer_bytes(program.buffers[access.buffer]))
        votes[x] += size * _has_unit_digit(offset, x)
        votes[r] += size * (local_slope(offset, r) == 1)
    return votes[x] > votes[r]


def _has_unit_digit(offset: Int, axis: Axis) -> bool:
    """True when an offset counts the axis, or one digit of it, in steps of 1."""
    for monomial, step in offset.terms:
        if step != 1 or len(monomial) != 1:
            continue
        atom: Atom | None = monomial[0]
        while isinstance(atom, (Quotient, Remainder)):
            atom = atom.num.atom
        if atom is axis:
            return True
    return False


def is_window(kernel: Kernel, strides: Strides) -> bool:
    """True for short rows that overlap their neighbours, as in pooling."""
    x, r = kernel.axes
    if bounds(r.extent)[1] > LONGEST_WINDOW:
        return False
    steps = [local_slope(access.offset(strides), x) for access in accesses(kernel)]
    return 1 in steps and all(step is not None and 0 <= step <= WIDEST_STEP for step in steps)
