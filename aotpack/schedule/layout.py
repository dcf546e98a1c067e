"""Choose the memory order of dimensions of each intermediate, by the accesses to it.

Inputs, weights and outputs are contiguous by contract, or in the order that callers expect; so are
buffers that scatters overwrite and that foreign calls and control flow touch. Derived weights are
laid out as their readers want them, and ``given`` tells the weight program how. A buffer that
its readers see transposed (attention output read as [b, s, h*d]) is written that way, so no
transpose is ever run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType
from typing import NamedTuple

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import (
    Access,
    accesses,
    axes_in,
    digit_count,
    has_digits,
    in_order,
    local_slope,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.operations import Attention, Matmul, Scatter
from aotpack.ir.program import Buffer, Call, Control, Program, concats_by_part, read_whole, targets
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Atom, Axis, Int
from aotpack.ir.values import Load, walk

MAX_RANK = 5  # beyond, only the order of the operation itself is considered
WIDEST_STEP = 3  # elements between neighbouring windows
LEAST_LANES = 16  # neighbours that fill a vector


class Use(NamedTuple):
    """An access, the axes along which its block has no neighbours, and a product's columns."""

    access: Access
    fixed_axes: frozenset[Axis]
    columns: Axis | None


def choose_strides(
    program: Program,
    kernels: tuple[Kernel, ...],
    given: Mapping[str, tuple[Int, ...]] = MappingProxyType({}),
    is_host: bool = False,
    expected: Mapping[str, tuple[Int, ...]] = MappingProxyType({}),
) -> dict[str, tuple[Int, ...]]:
    """Choose the memory order of each buffer's dimensions by the accesses to it.

    Of equal orders it keeps the expected one.
    """
    slid = slid_dims(kernels, is_host=is_host)
    fixed = contiguous_by_contract(program)
    uses: dict[str, list[Use]] = {}
    whole = concats_by_part(program)
    for kernel in kernels:
        fixed_axes, template_op = _fixed_axes(kernel), kernel.template_op
        columns = template_op.n if isinstance(template_op, Matmul) else None
        for access in accesses(kernel):
            name = whole.get(access.buffer, access.buffer)
            use = Use(replace(access, buffer=name), fixed_axes, columns)
            uses.setdefault(name, []).append(use)
    strides: dict[str, tuple[Int, ...]] = {}
    for name, buffer in program.buffers.items():
        strides[name] = in_order(buffer.shape, buffer.order)
        if name in uses and name not in fixed and is_free_to_permute(buffer):
            along = slid.get(name, frozenset())
            strides[name] = _cheapest(buffer, uses[name], along, expected.get(name))
    for kernel in kernels:
        strides |= _of_body(kernel)
    strides |= given
    return strides | {part: strides[name] for part, name in whole.items()}


def _of_body(kernel: Kernel) -> dict[str, tuple[Int, ...]]:
    """The strides of derived weights that a call's body reads, as the body chose them."""
    call = kernel.control
    if not isinstance(call, Call) or not kernel.parts:
        return {}
    return {
        call.given[name]: strides
        for name, strides in kernel.parts[0].given.items()
        if name in call.given
    }


def _fixed_axes(kernel: Kernel) -> frozenset[Axis]:
    """The axes that have one value in a block of a product or attention: neighbours lie apart."""
    template_op = kernel.template_op
    if isinstance(template_op, Matmul):
        return frozenset(template_op.batch)
    if isinstance(template_op, Attention):
        return frozenset((template_op.batch, template_op.head))
    return frozenset()


def contiguous_by_contract(program: Program) -> set[str]:
    """The buffers that code other than our loops accesses: row-major, or in a given order."""
    fixed = {*program.inputs, *program.weights, *program.results} - {*program.derived}
    for operation in program.operations:
        fixed.update(read_whole(operation))
        if isinstance(operation, (Scatter, Foreign, Control)):
            fixed.update(targets(operation))
    return fixed


def is_free_to_permute(buffer: Buffer) -> bool:
    """True if another order of dimensions than row-major is looked for."""
    return 2 < len(buffer.shape) <= MAX_RANK


def slid_dims(kernels: Iterable[Kernel], *, is_host: bool) -> dict[str, frozenset[int]]:
    """The dimensions of buffers along which windows of reductions slide, as those of pooling.

    Those of a factor that is the same for each window, as a weight, are the ones along a window.
    Windows are computed side by side in the lanes of a vector or warp: quickest along another
    dimension, where each lane has the same window. Processors also read products so.
    """
    found: dict[str, frozenset[int]] = {}
    for kernel in kernels:
        if isinstance(kernel.template_op, Matmul) and is_host:
            for name, dims in _across_products(kernel.template_op):
                found[name] = found.get(name, frozenset()) | dims
        if kernel.template_op is not None or len(kernel.axes) != 2:
            continue
        uses = list(accesses(kernel))
        steps = {step for use in uses for part in use.index for step in _sliding(part, kernel)}
        for use in uses if steps else ():
            moved = (steps & set(i.atoms()) or kernel.axes[1] in axes_in((i,)) for i in use.index)
            dims = frozenset(dim for dim, is_moved in enumerate(moved) if is_moved)
            found[use.buffer] = found.get(use.buffer, frozenset()) | dims
    return found


def _across_products(product: Matmul) -> Iterator[tuple[str, frozenset[int]]]:
    """The dimensions along rows of the left factor, and along the depth of the right one.

    Processors read rows along the depth where they lie, and pack the other factor row by row.
    """
    for factor, axis in ((product.lhs, product.m), (product.rhs, product.k)):
        for load in walk((factor,)):
            if isinstance(load, Load):
                dims = (dim for dim, part in enumerate(load.index) if axis in axes_in((part,)))
                yield load.buffer, frozenset(dims)


def _sliding(index: Int, kernel: Kernel) -> set[Atom]:
    """The digits of rows that move a window along this index by less than its length."""
    x, r = kernel.axes
    if not {x, r} <= axes_in((index,)):
        return set()
    return {
        monomial[0]
        for monomial, step in index.terms
        if len(monomial) == 1 and x in Int.of(monomial[0]).leaves() and 0 < step <= WIDEST_STEP
    }


def _cheapest(
    buffer: Buffer, uses: list[Use], slid: frozenset[int], expected: tuple[Int, ...] | None
) -> tuple[Int, ...]:
    last = len(buffer.shape) - 1
    lanes = {dim for dim in range(last + 1) if typical(buffer.shape[dim]) >= LEAST_LANES} - slid
    orders = sorted(permutations(range(last + 1)), key=lambda dims: dims[-1] != last)
    if slid and lanes:
        orders = [dims for dims in orders if dims[-1] in lanes]
    if expected is not None:
        orders.sort(key=lambda dims: in_order(buffer.shape, dims) != expected)
    best = in_order(buffer.shape, orders[0])
    best_cost = _cost(buffer.name, best, uses)
    if not any((*best_cost[:3], best_cost[-1])):
        return best
    for dims in orders:  # of equal costs, an order that keeps the rows wins
        strides = in_order(buffer.shape, dims)
        cost = _cost(buffer.name, strides, uses)
        if cost < best_cost:
            best, best_cost = strides, cost
    return best


def _cost(name: str, strides: tuple[Int, ...], uses: list[Use]) -> tuple[int, ...]:
    """Few are good: scattered factors, accesses without a unit-stride axis, divisions, terms.

    Last come the factors of products that do not lie along the sum, and what products make and
    add to it that does not lie along their columns.
    """
    offsets = [use.access.offset({name: strides}) for use in uses]
    windows = sum(_is_scattered_factor(use, o) for use, o in zip(uses, offsets, strict=True))
    scattered = sum(
        not _has_unit_step(o, use.fixed_axes) for use, o in zip(uses, offsets, strict=True)
    )
    across = sum(_is_across(use, o) for use, o in zip(uses, offsets, strict=True))
    terms = sum(len(offset.terms) for offset in offsets)
    return windows, scattered, sum(map(digit_count, offsets)), terms, across


def is_window(access: Access) -> bool:
    """True for a factor of a product that is read with several digits of the sum."""
    operation = access.member.operation
    return isinstance(operation, Matmul) and has_digits(access.index, operation.k)


def _is_scattered_factor(use: Use, offset: Int) -> bool:
    """True for a window whose last digit is not along memory, and for rows read in steps.

    A convolution reads its input many times, so this counts first.
    """
    operation = use.access.member.operation
    if not isinstance(operation, Matmul) or use.access.is_store:
        return False
    if is_window(use.access):
        return local_slope(offset, operation.k) != 1
    is_stepped = (local_slope(offset, operation.m) or 0) > 1
    return is_stepped and not _has_unit_step(offset, use.fixed_axes)


def _is_across(use: Use, offset: Int) -> bool:
    """True for a factor that does not lie along the sum, and another access not along columns."""
    operation = use.access.member.operation
    if isinstance(operation, Matmul) and not use.access.is_store:
        return local_slope(offset, operation.k) != 1
    columns = use.columns
    return columns is not None and columns in offset.leaves() and local_slope(offset, columns) != 1


def _has_unit_step(offset: Int, fixed_axes: frozenset[Axis]) -> bool:
    axes = {leaf for leaf in offset.leaves() if isinstance(leaf, Axis)} - fixed_axes
    return not axes or any(local_slope(offset, axis) == 1 for axis in axes)


def typical_bytes(buffer: Buffer) -> int:
    """The memory a buffer takes at typical sizes."""
    return typical(buffer_bytes(buffer))
