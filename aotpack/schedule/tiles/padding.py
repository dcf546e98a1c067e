"""Padded strides: rows of an intermediate begin at whole cache lines if that widens accesses.

    t[i, j] at 50257*i + j      ->      t[i, j] at 50304*i + j

A buffer is padded if that lowers the bytes that products and row kernels move by narrow accesses. A
pointwise kernel goes line by line over padded rows (``line_tile``) and is as quick as without.
"""

from collections.abc import Iterable, Mapping

from aotpack.ir.kernels.access import Strides, fill_order, places
from aotpack.ir.kernels.kernel import Kernel, unflattened
from aotpack.ir.kernels.rows import LINE_BYTES, row_of
from aotpack.ir.kernels.tiles import Tile2D
from aotpack.ir.program import Buffer, Program, concats_by_part
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.layout import contiguous_by_contract, typical_bytes
from aotpack.schedule.tiles.divisibility import SMALL_SHARE, widening_sizes

# Measured on an H200: if rows of 16-bit elements have an odd length, GPUs load and store 2 bytes a
# thread (and 1 or 2 if 4 does not divide the length of rows of bytes). Products then write results
# at half the speed and copy no factor ahead; long rows are read at half the speed. From 4 bytes a
# thread on nothing is gained. A kernel with rows in registers gains only if all its large tensors
# have wide rows: else threads hold other elements of wide rows than of narrow ones, and exchanging
# them takes as long.
LARGEST_DENSE = 1024  # elements; a shorter stride would grow by too large a part
WIDE = 4  # bytes of an access by one thread, from which on nothing is gained
LINE = 1024  # elements of a block along a line
CHANNELS_LAST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def padded(shape: tuple[Int, ...], strides: tuple[Int, ...], itemsize: int) -> tuple[Int, ...]:
    """Dense strides, those beyond ``LARGEST_DENSE`` rounded up to whole cache lines.

    The order of the dimensions, symbolic strides and channels-last layouts stay.
    """
    order = fill_order(shape, strides)
    if order is None or order == CHANNELS_LAST.get(len(shape)):
        return strides
    found = list(strides)
    step = Int.of(1)
    for dim in order:
        found[dim] = step = _rounded(step, LINE_BYTES // itemsize)
        step = step * shape[dim]
    return tuple(found)


def _rounded(stride: Int, elements: int) -> Int:
    known = stride.constant
    if known is None or known <= LARGEST_DENSE:
        return stride
    return Int.of(-(-known // elements) * elements)


def pad_strides(
    program: Program, kernels: tuple[Kernel, ...], strides: Mapping[str, tuple[Int, ...]]
) -> dict[str, tuple[Int, ...]]:
    """Begin rows of intermediates at whole cache lines if that lowers the bytes of narrow accesses.

    All candidates are padded first; then, in order, those go back that do not lower them.
    """
    whole, fixed = concats_by_part(program), contiguous_by_contract(program)
    could: dict[str, tuple[Int, ...]] = {}
    for name, buffer in program.buffers.items():
        if name not in fixed and name not in whole:
            changed = padded(buffer.shape, strides[name], buffer.dtype.itemsize)
            if changed != strides[name] and row_of(buffer.shape, changed) is not None:
                could[name] = changed
    touching = _touching(could, kernels, whole)
    kept = {name: could[name] for name in could if touching[name]}
    is_settled = not kept
    while not is_settled:
        is_settled = True
        for name in tuple(kept):
            dense = {other: kept[other] for other in kept if other != name}
            near = touching[name]
            before, after = (
                _narrow_bytes(near, program, _with(strides, some, whole)) for some in (kept, dense)
            )
            if after <= before:
                kept, is_settled = dense, False
    return _with(strides, kept, whole)


def _with(
    strides: Mapping[str, tuple[Int, ...]],
    changed: Mapping[str, tuple[Int, ...]],
    whole: Mapping[str, str],
) -> dict[str, tuple[Int, ...]]:
    """The strides with some changed, also for the parts of concat buffers."""
    parts = {part: changed[name] for part, name in whole.items() if name in changed}
    return {**strides, **changed, **parts}


def _touching(
    names: Iterable[str], kernels: tuple[Kernel, ...], whole: Mapping[str, str]
) -> dict[str, list[Kernel]]:
    found: dict[str, list[Kernel]] = {name: [] for name in names}
    for kernel in kernels:
        touched = (whole.get(name, name) for name in (*kernel.reads, *kernel.stored))
        for name in dict.fromkeys(touched):
            if name in found:
                found[name].append(kernel)
    return found


def _narrow_bytes(kernels: Iterable[Kernel], program: Program, strides: Strides) -> int:
    """The bytes that kernels move by narrow accesses; in a row kernel all bytes, if any are."""
    total = 0
    for kernel in kernels:
        is_pointwise = len(kernel.axes) == 1 and kernel.scatter is None
        if not is_pointwise:
            narrow, moved = _narrow(kernel, program, strides)
            total += moved if narrow and kernel.template_op is None else narrow
    return total


def line_tile(kernel: Kernel, program: Program, strides: Strides) -> Tile2D | None:
    """The tile of a pointwise kernel line by line, if that widens its accesses to padded rows."""
    if kernel.is_opaque or kernel.scatter is not None or len(kernel.axes) != 1:
        return None
    rows = (row_of(program.buffers[n].shape, strides[n]) for n in (*kernel.reads, *kernel.stored))
    best = (_narrow(kernel, program, strides)[0], 0)
    for length in dict.fromkeys(row.length for row in rows if row is not None):
        if known_multiple(kernel.axes[0].extent, length):
            narrow, _ = _narrow(unflattened(kernel, Int.of(length)), program, strides)
            best = min(best, (narrow, length), key=lambda one: one[0])
    return Tile2D(Int.of(best[1]), 1, LINE, num_warps=4) if best[1] else None


def _narrow(kernel: Kernel, program: Program, strides: Strides) -> tuple[int, int]:
    """The bytes of large tensors moved by narrow accesses, and by all accesses."""
    touched = [(access.buffer, offset) for access, offset in places(kernel, strides)]
    sizes = {name: typical_bytes(program.buffers[name]) for name, _ in touched}
    least = max(sizes.values(), default=0) / SMALL_SHARE
    moved = narrow = 0
    for name, offset in touched:
        if sizes[name] >= least:
            moved += sizes[name]
            narrow += sizes[name] * (not _is_wide(program.buffers[name], offset, strides))
    return narrow, moved


def _is_wide(buffer: Buffer, offset: Int, strides: Strides) -> bool:
    """True for accesses of whole vectors, in padded rows or at divisible sizes."""
    row = row_of(buffer.shape, strides[buffer.name])
    if row is not None and row.walked_by(offset) is not None:
        return True
    elements = max(1, WIDE // buffer.dtype.itemsize)
    return widening_sizes(offset, elements) is not None
