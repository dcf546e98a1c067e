"""Choose block sizes: for each kernel the closed list of variants a launch can take.

Pointwise and reduction tiles follow from the access pattern and the sizes; matmul and attention
tiles come from ``matmul.py`` and ``attention.py``.
"""

from collections.abc import Iterator
from dataclasses import replace

from aotpack.devices import Gpu, first_with_clusters, of_l2, portable_cluster, rounded_down
from aotpack.ir.kernels.access import VECTOR_BYTES, Strides, accesses, local_slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import MAX_ARCH, WARP, PointwiseTile, ReductionTile, Variant
from aotpack.ir.operations import Attention, Matmul, Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Program, reads, targets
from aotpack.ir.symbolic.facts import bounds, known_multiple, known_one, typical
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.program.split_reduction import columns_together
from aotpack.schedule.tiles.attention import attention_variants
from aotpack.schedule.tiles.attention_roles import with_roles
from aotpack.schedule.tiles.candidates import with_others
from aotpack.schedule.tiles.divisibility import with_divisibility
from aotpack.schedule.tiles.few_queries import with_fixed_splits
from aotpack.schedule.tiles.few_rows import few_rows_variants
from aotpack.schedule.tiles.host import host_variants, is_across
from aotpack.schedule.tiles.matmul import added_bytes, matmul_variants
from aotpack.schedule.tiles.orientation import is_turned
from aotpack.schedule.tiles.padding import line_tile
from aotpack.schedule.tiles.row_pipeline import (
    ROW_PIPELINE,
    cluster_rows,
    few_rows,
    tile_row_pipeline,
)
from aotpack.schedule.tiles.row_tiles import row_tiles
from aotpack.schedule.tiles.tile_2d import tile_2d
from aotpack.schedule.tiles.unrolled_rows import unrolled_rows

ANY_ARCH = (1, MAX_ARCH)
BLOCK_ELEMENTS = 24  # float32 registers of the last block: half of what 1024 threads may have
MOST_STATES = 3  # accumulators a lane, beyond which fewer threads or steps share the registers
CLUSTER_SIZE = portable_cluster()  # programs that share a row
LARGEST_IN_L2 = 300 * 1024  # bytes of a row, of which L2 holds one for each multiprocessor


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
    changed = frozenset(program.weights) if part else state | _updated(program)
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
                        _variants(kernel, program, strides, gpu, fp32_precision, changed),
                        kernel,
                        program,
                        strides,
                    )
                ),
            ),
        )
        for kernel in kernels
    )


def _updated(program: Program) -> set[str]:
    return {update.name for update in program.updates}


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
    changed: frozenset[str],
) -> tuple[Variant, ...]:
    template_op = kernel.template_op
    if isinstance(template_op, Matmul):
        few = few_rows_variants(kernel.products, program, strides, changed, kernel.reads)
        full = [v for v in few if v.at_most is None]
        added = added_bytes(kernel, program, strides)
        many = matmul_variants(
            *(template_op, program, strides, gpu, fp32_precision, added),
            is_turned=is_turned(kernel, strides),
        )
        return (*few, *(v for v in many if not any(one.takes(v.arch_high) for one in full)))
    if isinstance(template_op, Attention):
        plain = attention_variants(template_op, gpu, fp32_precision)
        dtypes = {name: buffer.dtype for name, buffer in program.buffers.items()}
        return with_roles(plain, template_op, dtypes, strides, gpu)
    if kernel.scatter is not None:
        return _pointwise_variants(kernel.axes[0].extent, gpu)
    if len(kernel.axes) == 2:
        return _reduction_variants(kernel, program, strides, gpu)
    plane = tile_2d(kernel, program, strides, gpu) or line_tile(kernel, program, strides)
    if plane is not None:
        return (Variant(plane, *ANY_ARCH, Int.of(1), None),)
    return _pointwise_variants(kernel.axes[0].extent, gpu)


def _pointwise_variants(numel: Int, gpu: Gpu) -> tuple[Variant, ...]:
    """Smaller blocks, which fill more multiprocessors, while there is a thread for each point."""
    limit = gpu.threads_at_once
    small = Variant(PointwiseTile(256, 4), *ANY_ARCH, numel, limit)
    large = Variant(PointwiseTile(1024, 4), *ANY_ARCH, numel, None)
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
            columns = _power_of_two(typical(x.extent))
            tile = _column_tile(columns, _width(kernel, program), _states(kernel))
        else:
            tile = _resident_columns(kernel, program, _power_of_two(int(longest)), gpu)
    elif longest <= fits:
        return _row_variants(kernel, program, strides, _power_of_two(int(longest)), gpu)
    elif _has_scan(kernel):
        return _long_scan_variants(kernel, gpu)
    else:
        return _long_row_variants(kernel, program, strides, gpu)
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


def _long_row_variants(
    kernel: Kernel, program: Program, strides: Strides, gpu: Gpu
) -> tuple[Variant, ...]:
    """One program a row; a cluster, if the GPU has them, for few rows or rows too long for L2."""
    along = _read_along(kernel, strides)
    width = max((program.buffers[name].dtype.itemsize for name in along), default=4)
    tile = _long_row_tile(kernel, width, len(along), gpu)
    rows, row = kernel.axes
    fewest, most = bounds(rows.extent)
    again = reads_again(kernel)
    can_share = again and known_multiple(row.extent, CLUSTER_SIZE * tile.group)
    too_long = typical(row.extent) * width > of_l2(LARGEST_IN_L2, gpu)
    shared = _shared_tile(kernel, width, gpu)

    def variants(low: int, high: int, limit: int, many: ReductionTile) -> Iterator[Variant]:
        """Up to ``limit`` rows are shared; for any other number there is ``many``."""
        if can_share and fewest <= limit:
            at_most = None if most <= limit else limit
            yield Variant(shared, low, high, rows.extent, at_most)
        if not can_share or most > limit:
            yield Variant(many, low, high, Int.of(1), None)

    in_row = row_reads(kernel, strides, program.buffers) if again else None
    pipeline = tile_row_pipeline(kernel, in_row, gpu)
    many = _walking_tile(kernel, width) if can_share and too_long else tile
    limit = cluster_rows(kernel, in_row, shared, pipeline, gpu)
    if pipeline is None and many == tile and not (can_share and fewest <= limit):
        return (Variant(tile, *ANY_ARCH, Int.of(1), None),)
    return (
        Variant(tile, ANY_ARCH[0], first_with_clusters() - 1, Int.of(1), None),
        *variants(*ROW_PIPELINE, limit, pipeline or many),
        *variants(ROW_PIPELINE[1] + 1, ANY_ARCH[1], few_rows(gpu), many),
    )


def _shared_tile(kernel: Kernel, width: int, gpu: Gpu) -> ReductionTile:
    """The tile of a cluster for few rows: parts in registers if they fit."""
    part = bounds(kernel.axes[1].extent)[1] // CLUSTER_SIZE
    if part > gpu.longest_row:
        return _walking_tile(kernel, width)
    block = _power_of_two(int(part))
    warps = min(16, max(1, block // 512))
    return ReductionTile(1, block, persistent=True, num_warps=warps, cluster_size=CLUSTER_SIZE)


def _walking_tile(kernel: Kernel, width: int) -> ReductionTile:
    """The tile of a cluster that loops over blocks; small programs: some wait while others read."""
    warps = 8 if _states(kernel) > MOST_STATES else 16
    return ReductionTile(
        1,
        256 * warps,
        persistent=False,
        num_warps=warps,
        group=max(1, VECTOR_BYTES // width),
        cluster_size=CLUSTER_SIZE,
    )


def _read_along(kernel: Kernel, strides: Strides) -> set[str]:
    """The buffers that are contiguous along rows."""
    return {
        access.buffer
        for access in accesses(kernel)
        if not access.is_store and local_slope(access.offset(strides), kernel.axes[1]) == 1
    }


def _long_row_tile(kernel: Kernel, width: int, tensors: int, gpu: Gpu) -> ReductionTile:
    """Blocks of a row that is not kept in registers (measured on an H200).

    Read once: many small programs with several loads in flight, larger ones if all rows run at once
    ([1,2^26]: a sum in 33.7 us of 35.7, an argmax in 34.7 of 36.8). Read again: few rows at a time,
    so that they are still in L2. If L2 holds at most two rows for each multiprocessor, blocks are
    larger, and registers allow one program there. ``tensors`` of ``width`` bytes an element are
    read.
    """
    r = kernel.axes[1]
    group = max(1, VECTOR_BYTES // width)
    many = _states(kernel) > MOST_STATES
    if not reads_again(kernel):
        is_few = typical(kernel.axes[0].extent) <= 4 * gpu.multiprocessors
        unroll, warps = 1 if many else 4, 8 if is_few else 4
        block = 2 * group * WARP * warps
        if not _keeps_positions(kernel):  # comparing positions takes registers
            block = max(2048, block)
        return ReductionTile(
            1, block, persistent=False, num_warps=warps, unroll=unroll, group=group
        )
    elements = group
    if typical(r.extent) * width > rounded_down(gpu.l2 / (2 * gpu.multiprocessors)):
        elements = max(group, _power_of_two(BLOCK_ELEMENTS // max(1, tensors) + 1) // 2)
    warps = 16 if many else 32
    return ReductionTile(1, WARP * warps * elements, persistent=False, num_warps=warps, group=group)


def _keeps_positions(kernel: Kernel) -> bool:
    """True when lanes keep the positions of extremes."""
    return any(MONOIDS[one.kind].needs_order for one in kernel.reductions)


def reads_again(kernel: Kernel) -> bool:
    """True when a row is read again after its reduction."""
    reduced: set[str] = set()  # known only after the row is reduced
    for member in kernel.members:
        follows = member.outer and reduced.intersection(reads(member.operation))
        if follows or isinstance(member.operation, Reduction):
            reduced.update(targets(member.operation))
    return any(
        reduced.intersection(reads(member.operation))
        for member in kernel.members
        if not member.outer
    )


def _states(kernel: Kernel) -> int:
    """The accumulators of a lane."""
    return sum(len(MONOIDS[one.kind].states) for one in kernel.reductions)


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


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
