"""Rows that are not kept in registers: loops over their blocks, and programs that share a row.

Measured on an H200.
"""

from collections.abc import Iterator
from dataclasses import replace

from aotpack.devices import Gpu, first_with_clusters, of_l2, portable_cluster, rounded_down
from aotpack.ir.kernels.access import VECTOR_BYTES, Strides, accesses, local_slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.key_splits import power_of_two
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import ANY_ARCH, WARP, ReductionTile, Variant
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Program, reads, targets
from aotpack.ir.symbolic.facts import bounds, known_multiple, typical
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.tiles.row_pipeline import (
    ROW_PIPELINE,
    cluster_rows,
    few_rows,
    tile_row_pipeline,
)

BLOCK_ELEMENTS = 24  # float32 registers of the last block: half of what 1024 threads may have
MOST_STATES = 3  # accumulators a lane, beyond which fewer threads or steps share the registers
CLUSTER_SIZE = portable_cluster()  # programs that share a row
LARGEST_IN_L2 = 300 * 1024  # bytes of a row, of which L2 holds one for each multiprocessor


def long_row_variants(
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
    block = power_of_two(int(part))
    warps = min(16, max(1, block // 512))
    return ReductionTile(1, block, persistent=True, num_warps=warps, cluster_size=CLUSTER_SIZE)


def _walking_tile(kernel: Kernel, width: int) -> ReductionTile:
    """The tile of a cluster that loops over blocks; small programs: some wait while others read."""
    warps = 8 if states(kernel) > MOST_STATES else 16
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
    many = states(kernel) > MOST_STATES
    if not reads_again(kernel):
        is_few = typical(kernel.axes[0].extent) <= 4 * gpu.multiprocessors
        combines = _combines_groups(kernel)
        vectors, steps = (4, 2) if combines else (2, 4)
        has_rest = combines and r.extent.constant is None  # which takes registers
        warps = 8 if is_few and not has_rest else 4
        unroll, block = 1 if many else steps, vectors * group * WARP * warps
        if not _keeps_positions(kernel):  # comparing positions takes registers
            block = max(2048, block)
        loop = ReductionTile(1, block, persistent=False, num_warps=warps)
        return replace(loop, unroll=unroll, group=group)
    elements = group
    if typical(r.extent) * width > rounded_down(gpu.l2 / (2 * gpu.multiprocessors)):
        elements = max(group, power_of_two(BLOCK_ELEMENTS // max(1, tensors) + 1) // 2)
    warps = 16 if many else 32
    return ReductionTile(1, WARP * warps * elements, persistent=False, num_warps=warps, group=group)


def _combines_groups(kernel: Kernel) -> bool:
    """True when a thread makes a state of all its elements in a block: it loads them together."""
    kinds = [MONOIDS[one.kind] for one in kernel.reductions]
    return any(len(kind.states) > 1 and not kind.needs_order for kind in kinds)


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


def states(kernel: Kernel) -> int:
    """The accumulators of a lane."""
    return sum(len(MONOIDS[one.kind].states) for one in kernel.reductions)
