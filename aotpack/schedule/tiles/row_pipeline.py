"""Row pipelines: programs go from row to row; while one is worked on, the next ones are copied.

    pass 1: await block 0, reduce | await block 1, reduce | ...       copied before
    pass 2: write block 0, copy the next row's | write block 1, ...   awaited afterwards

A row, or a program's part of it in a cluster, lies in shared memory, so it is read from memory
once, and reads never stop. Common reads, such as weights, stay there or in registers, so that rows
do not read them from L2 again. That leaves room for few programs, so their rings extend into the
next row: loads are in flight while they wait for each other. Measured on an H200 (2026-11-22,
``docs/measurements/h200_row_pipeline.csv``); other GPUs take lengths in proportion.
"""

from collections.abc import Iterator

from aotpack.devices import BLACKWELL, HOPPER, RESERVED_SHARED, Gpu, of_l2, rounded_down
from aotpack.ir.kernels.access import axes_in
from aotpack.ir.kernels.cluster_mailbox import mailbox_bytes
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.row_reads import RowReads
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.operations import Pointwise
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.values import Apply, Load, walk
from aotpack.stages import RING_START

ROW_PIPELINE = (HOPPER, BLACKWELL - 1)  # architectures on which it was measured
SHORTEST = 130_000  # bytes of a row; shorter ones are still in L2 when they are read again
SHORTEST_WITH_EXPONENTIALS = 120_000  # likewise, if exponentials take time too
SHORTEST_WITH_COMMON = 60_000
MOST_KEPT = 64  # registers of a thread


def few_rows(gpu: Gpu) -> int:
    """The number of rows up to which most multiprocessors would be idle."""
    return rounded_down(gpu.multiprocessors / 4)


def most_shared(gpu: Gpu) -> int:
    """Likewise, if rows have no common reads."""
    return rounded_down(gpu.multiprocessors / 2)


def tile_row_pipeline(kernel: Kernel, reads: RowReads | None, gpu: Gpu) -> ReductionTile | None:
    """The tile of a row pipeline for a kernel with long rows; None if it takes none."""
    row = kernel.axes[1].extent.constant
    if row is None or reads is None or not gpu.clusters:
        return None
    if row * reads.width < of_l2(_shortest(kernel, reads), gpu):
        return None
    clusters = dict(gpu.clusters)
    part = rounded_down(gpu.shared / 4)  # bytes of a stream that leave room for four programs
    fitting = [n for n in clusters if row * reads.width <= n * part]
    cluster = min(fitting, default=max(clusters))
    if row % (cluster * reads.vector):
        return None
    warps = 8 if fitting else 16
    block = WARP * warps * reads.vector
    blocks = -(-row // (cluster * block))
    mailboxes = 2 * mailbox_bytes(kernel, cluster)  # one serves a row, the other the next
    for together, kept, least, most in _divisions(reads, blocks):
        left = _own_bytes(together, gpu) - mailboxes - reads.common_bytes(kept, block, blocks)
        ring = min(most, left // reads.slot_bytes(block))
        if ring >= least:
            return ReductionTile(
                1,
                block,
                persistent=False,
                num_warps=warps,
                group=reads.vector,
                cluster_size=cluster,
                resident=clusters[cluster] * together,
                ring=ring,
                kept=kept,
            )
    return None


def cluster_rows(
    kernel: Kernel,
    reads: RowReads | None,
    shared: ReductionTile,
    pipeline: ReductionTile | None,
    gpu: Gpu,
) -> int:
    """The number of rows up to which ``shared`` beats ``pipeline``, or a program a row (measured).

    It does if parts are in registers, and there are no common reads or all registers of a
    multiprocessor hold the row.
    """
    row = kernel.axes[1].extent.constant
    if pipeline is None or reads is None or row is None:
        return few_rows(gpu) if reads is None or reads.common else most_shared(gpu)
    if not shared.persistent:
        return 0
    if reads.common:
        return few_rows(gpu) if row * reads.width < 4 * gpu.registers else 0
    return most_shared(gpu)


def _shortest(kernel: Kernel, reads: RowReads) -> int:
    """The bytes of a row from which on a row pipeline is quicker."""
    if reads.common:
        return SHORTEST_WITH_COMMON
    return SHORTEST_WITH_EXPONENTIALS if takes_exponentials(kernel) else SHORTEST


def takes_exponentials(kernel: Kernel) -> bool:
    """True when the results take an exponential of each element, as softmax does."""
    r = kernel.axes[1]
    for member in kernel.members:
        if not isinstance(member.operation, Pointwise):
            continue
        stored = Rewriter(dict(member.binding))(member.operation.value)
        for value in walk([stored]):
            if isinstance(value, Apply) and value.op == "exp":
                read = [load for load in walk([value]) if isinstance(load, Load)]
                if any(r in axes_in(load.index) for load in read):
                    return True
    return False


def _divisions(reads: RowReads, blocks: int) -> Iterator[tuple[int, int, int, int]]:
    """Divisions of a multiprocessor, best first: programs, kept tensors, least and most ring slots.

    Few programs need loads in flight while they wait for each other, so a ring has more slots than
    a row has blocks; fp32 layer_norm was quickest with 14 slots for 8 blocks.
    """
    common = len(reads.common)
    if not common:
        yield from ((together, 0, blocks, blocks) for together in (4, 3, 2, 1))
        return
    most = -(-blocks * 7 // 4)
    yield 2, 0, blocks + 1, most
    if reads.width == 4 and common * blocks * reads.vector <= MOST_KEPT:
        yield 1, common, blocks, most
    yield 1, 0, blocks, most


def _own_bytes(together: int, gpu: Gpu) -> int:
    """The shared memory of one of these programs of a multiprocessor, without Triton's own."""
    return (gpu.shared + RESERVED_SHARED) // together - RESERVED_SHARED - RING_START
