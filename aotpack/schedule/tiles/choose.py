"""Choose block sizes: for each kernel the closed list of variants a launch can take.

Pointwise and reduction tiles follow from the access pattern and the sizes; matmul and attention
tiles come from ``matmul.py`` and ``attention.py``.
"""

from dataclasses import replace
from typing import NamedTuple

from aotpack.devices import Gpu, rounded_down
from aotpack.ir.kernels.access import Strides, accesses, local_slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.key_splits import power_of_two
from aotpack.ir.kernels.tiles import ANY_ARCH, PointwiseTile, ReductionTile, Variant
from aotpack.ir.operations import Attention, Matmul, Reduction, Scan
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds, known_one, typical
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.program.split.split_reduction import columns_together
from aotpack.schedule.tiles.attention import attention_variants
from aotpack.schedule.tiles.attention_roles import with_roles
from aotpack.schedule.tiles.candidates import with_others
from aotpack.schedule.tiles.divisibility import with_divisibility
from aotpack.schedule.tiles.few_queries import with_fixed_splits
from aotpack.schedule.tiles.few_rows import few_rows_variants
from aotpack.schedule.tiles.host import host_variants, is_across
from aotpack.schedule.tiles.long_rows import long_row_variants, reads_again, states
from aotpack.schedule.tiles.matmul import added_bytes, matmul_variants
from aotpack.schedule.tiles.orientation import is_turned
from aotpack.schedule.tiles.padding import line_tile
from aotpack.schedule.tiles.row_tiles import row_tiles
from aotpack.schedule.tiles.tile_2d import tile_2d
from aotpack.schedule.tiles.unrolled_rows import unrolled_rows


def choose_tiles(
    program: Program,
    kernels: tuple[Kernel, ...],
    strides: Strides,
    gpu: Gpu,
    fp32_precision: str = "ieee",
    state: frozenset[str] = frozenset(),
    part: str = "",
) -> tuple[Kernel, ...]:
    """Choose the block sizes, or variants, of each kernel; a foreign kernel brings its own.

    Other methods of the package change the weights ``state``, and what is around a ``part`` may
    change any of them.
    """
    written = _written(program, state, part)
    return tuple(
        kernel
        if kernel.is_opaque
        else replace(
            kernel,
            variants=(
                *host_variants(
                    kernel,
                    strides,
                    is_across=_is_either(kernel) and is_across(kernel, program, strides),
                    is_either=_is_either(kernel),
                ),
                *(
                    with_others(replace(variant, arch_low=max(ANY_ARCH[0], variant.arch_low)))
                    for variant in with_divisibility(
                        _variants(kernel, program, strides, gpu, fp32_precision, written),
                        kernel,
                        program,
                        strides,
                    )
                ),
            ),
        )
        for kernel in kernels
    )


class Written(NamedTuple):
    """The weights that are ``changed`` by someone, and what a program that is no part updates."""

    changed: frozenset[str]
    own: frozenset[str]


def _written(program: Program, state: frozenset[str], part: str) -> Written:
    own = frozenset(update.name for update in program.updates)
    return Written(frozenset(program.weights), frozenset()) if part else Written(state | own, own)


def one_tile_for_all_sizes(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Keep only the variant for all sizes of each architecture: each row is summed in one order."""
    return tuple(
        replace(
            kernel,
            variants=tuple(_in_one_order(v, kernel) for v in kernel.variants if v.takes_everything),
        )
        for kernel in kernels
    )


def _in_one_order(variant: Variant, kernel: Kernel) -> Variant:
    """The variant without tiles whose keys are split by the number of rows."""
    attention = kernel.template_op
    if not isinstance(attention, Attention):
        return variant
    first, *others = (with_fixed_splits(tile, attention) for tile in variant.tiles)
    return replace(variant, tile=first, others=tuple(others))


def _is_either(kernel: Kernel) -> bool:
    """True for reductions of several rows: lanes may be along or across them."""
    if kernel.template_op is not None or len(kernel.axes) != 2 or _has_scan(kernel):
        return False
    return not known_one(kernel.axes[0].extent)


def _variants(
    kernel: Kernel,
    program: Program,
    strides: Strides,
    gpu: Gpu,
    fp32_precision: str,
    written: Written,
) -> tuple[Variant, ...]:
    template_op = kernel.template_op
    if isinstance(template_op, Matmul):
        few = few_rows_variants(kernel.products, program, strides, written.changed, kernel.reads)
        full = [v for v in few if v.at_most is None]
        added = added_bytes(kernel, program, strides)
        many = matmul_variants(
            *(template_op, program, strides, gpu, fp32_precision, added),
            is_turned=is_turned(kernel, strides),
        )
        return (*few, *(v for v in many if not any(one.takes(v.arch_high) for one in full)))
    if isinstance(template_op, Attention):
        plain = attention_variants(template_op, gpu, fp32_precision, written.own)
        dtypes = {name: buffer.dtype for name, buffer in program.buffers.items()}
        return with_roles(plain, template_op, dtypes, strides, gpu)
    if kernel.scatter is not None:
        return _pointwise_variants(kernel.axes[0].extent, gpu)
    if len(kernel.axes) == 2:
        return _reduction_variants(kernel, program, strides, gpu)
    plane = tile_2d(kernel, program, strides, gpu) or line_tile(kernel, program, strides)
    if plane is not None:
        return (Variant(plane, *ANY_ARCH, Int.of(1), None),)
    has_bytes = any(program.buffers[name].dtype.itemsize == 1 for name in kernel.stored)
    return _pointwise_variants(kernel.axes[0].extent, gpu, 2048 if has_bytes else 1024)


def _pointwise_variants(numel: Int, gpu: Gpu, block: int = 1024) -> tuple[Variant, ...]:
    """Smaller blocks, which fill more multiprocessors, while there is a thread for each point.

    A thread stores whole vectors: 2^26 codes of int8 took 53 us in blocks of 1024, 49 of 2048.
    """
    limit = gpu.threads_at_once
    small = Variant(PointwiseTile(256, 4), *ANY_ARCH, numel, limit)
    large = Variant(PointwiseTile(block, 4), *ANY_ARCH, numel, None)
    low, high = bounds(numel)
    if high <= limit:
        return (replace(small, at_most=None),)
    return (large,) if low > limit else (small, large)


def _reduction_variants(
    kernel: Kernel, program: Program, strides: Strides, gpu: Gpu
) -> tuple[Variant, ...]:
    """Rows, or 16 columns, in registers while they fit; if read once, up to a quarter of that.

    Longer ones are loops over blocks of rows or columns. Lanes are rows where these are windows.
    """
    unrolled = unrolled_rows(kernel, program, strides, gpu)
    if unrolled is not None:
        return (Variant(unrolled, *ANY_ARCH, Int.of(1), None),)
    x, r = kernel.axes
    longest = bounds(r.extent)[1]
    once = not reads_again(kernel) and not _has_scan(kernel)
    fits = gpu.longest_row // 4 if once else gpu.longest_row
    if _contiguous_axis(kernel, program, strides) is x:
        if longest > fits // 16:
            columns = power_of_two(typical(x.extent))
            tile = _column_tile(columns, _width(kernel, program), states(kernel))
        else:
            tile = _resident_columns(kernel, program, power_of_two(int(longest)), gpu)
    elif longest <= fits:
        return _row_variants(kernel, program, strides, power_of_two(int(longest)), gpu)
    elif _has_scan(kernel):
        return _long_scan_variants(kernel, gpu)
    else:
        return long_row_variants(kernel, program, strides, gpu)
    return (Variant(tile, *ANY_ARCH, Int.of(1), None),)


def _long_scan_variants(kernel: Kernel, gpu: Gpu) -> tuple[Variant, ...]:
    """Look-back with a program for each block if rows are few; else one program for each row.

    Blocks are half of a row in registers: [4,2^22] fp32 took 49.8 us with 8192 elements, 48.5 with
    4096 and 66.0 with 16384, but [1,2^26] 192.6 with 8192, 255.7 with 4096 (H200, 2026-11-21).
    """
    rows = kernel.axes[0].extent
    walk = Variant(
        ReductionTile(1, 4096, persistent=False, num_warps=8), *ANY_ARCH, Int.of(1), None
    )
    if any(m.outer or isinstance(m.operation, Reduction) for m in kernel.members):
        return (walk,)
    low, high = bounds(rows)
    block, most_rows = max(1, gpu.longest_row // 2), 2 * gpu.multiprocessors
    tile = ReductionTile(1, block, persistent=True, num_warps=max(1, block // 1024), look_back=True)
    look_back = Variant(tile, *ANY_ARCH, rows, most_rows)
    if low > most_rows:
        return (walk,)
    return (replace(look_back, at_most=None),) if high <= most_rows else (look_back, walk)


def _row_variants(
    kernel: Kernel, program: Program, strides: Strides, r: int, gpu: Gpu
) -> tuple[Variant, ...]:
    """Rows in registers; if a multiprocessor has 32 or more, a program takes several."""
    rows = kernel.axes[0].extent
    few, many = row_tiles(kernel, program, strides, r, gpu)
    least = rounded_down(32 * gpu.multiprocessors)
    low, high = bounds(rows)
    small, large = (Variant(tile, *ANY_ARCH, rows, None) for tile in (few, many))
    if few == many or high < least:
        return (small,)
    return (large,) if low >= least else (replace(small, at_most=least - 1), large)


def _width(kernel: Kernel, program: Program) -> int:
    """Bytes of the widest element that is read."""
    return max((program.buffers[name].dtype.itemsize for name in kernel.reads), default=4)


def _column_tile(columns: int, width: int, states: int) -> ReductionTile:
    """Neighbouring columns for a program, so that a warp reads whole cache lines."""
    x = min(columns_together(width), max(16, columns))
    unroll = max(1, 4 // max(1, states))
    return ReductionTile(x, 2048 // x, persistent=False, num_warps=4, unroll=unroll)


def _resident_columns(kernel: Kernel, program: Program, r: int, gpu: Gpu) -> ReductionTile:
    """Columns in registers (measured), best if they are read again.

    A warp reads 64 or 128 bytes of neighbouring columns at a time, and a thread keeps 128 bytes:
    enough loads are in flight. If columns are few, a program takes fewer, so that each
    multiprocessor has two programs.
    """
    x, width = kernel.axes[0], _width(kernel, program)
    size = gpu.longest_row // 2 if r <= gpu.longest_row // 64 else gpu.longest_row
    widest = 64 if width < 4 else 32
    together = max(min(widest, max(16, size // r)), 1024 // r)
    while together > 8 and typical(x.extent) < 2 * gpu.multiprocessors * together:
        together //= 2
    warps = together * r // (2048 if width < 4 else 1024)
    return ReductionTile(together, r, persistent=True, num_warps=min(8, max(1, warps)))


def _contiguous_axis(kernel: Kernel, program: Program, strides: Strides) -> Axis:
    """The axis along which most bytes are contiguous; the inner one if undecided."""
    x, r = kernel.axes
    votes = {x: 0, r: 0}
    for access in accesses(kernel):
        offset = access.offset(strides)
        for axis in (x, r):
            if local_slope(offset, axis) == 1:
                votes[axis] += typical_bytes(program.buffers[access.buffer])
    return x if votes[x] > votes[r] and typical(x.extent) > 1 else r


def _has_scan(kernel: Kernel) -> bool:
    return any(isinstance(member.operation, Scan) for member in kernel.members)
