"""Rows that programs take in turn: while one is worked on, those that follow are copied.

    walk 1: await block 0, reduce | await block 1, reduce | ...       the copies of before
    walk 2: write block 0, copy the next row's | write block 1, ...   the copies of afterwards

A row, or the part of it that a program of a cluster has, lies in shared memory, so it is read from
memory once, and reads never stop. What all rows need, such as weights, stays there or in registers,
where each row would read it from L2 again; there is then room for few programs, whose rings go on
into the next row, so that enough is on its way while they wait for each other.

Measured on an H200 (2026-11-22, ``docs/measurements/h200_row_pipeline.csv``); other GPUs take
lengths in proportion.
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
SHORTEST = 130_000  # bytes of a row; shorter ones are found in L2 when they are read again
SHORTEST_WITH_EXPONENTIALS = 120_000  # likewise, where that is not all that takes time
SHORTEST_WITH_COMMON = 60_000
MOST_KEPT = 64  # registers of a thread


def few_rows(gpu: Gpu) -> int:
    """Up to here most multiprocessors would wait for those that have a row."""
    return rounded_down(gpu.multiprocessors / 4)


def most_shared(gpu: Gpu) -> int:
    """Likewise, where rows have nothing in common."""
    return rounded_down(gpu.multiprocessors / 2)


def tile_row_pipeline(kernel: Kernel, reads: RowReads | None, gpu: Gpu) -> ReductionTile | None:
    """The tile of a kernel whose long rows are taken in turn; None if they are not."""
    row = kernel.axes[1].extent.constant
    if row is None or reads is None or not gpu.clusters:
        return None
    if row * reads.width < of_l2(_shortest(kernel, reads), gpu):
        return None
    clusters = dict(gpu.clusters)
    part = rounded_down(gpu.shared / 4)  # so much of a stream leaves room for four programs
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
    turn: ReductionTile | None,
    gpu: Gpu,
) -> int:
    """Up to how many rows ``shared`` is better than ``turn``, or than a program a row (measured).

    Parts in registers are, where weights take no room there, or the row is shorter than what all
    registers of a multiprocessor hold.
    """
    row = kernel.axes[1].extent.constant
    if turn is None or reads is None or row is None:
        return few_rows(gpu) if reads is None or reads.common else most_shared(gpu)
    if not shared.persistent:
        return 0
    if reads.common:
        return few_rows(gpu) if row * reads.width < 4 * gpu.registers else 0
    return most_shared(gpu)


def _shortest(kernel: Kernel, reads: RowReads) -> int:
    """The bytes of a row from which on it gains by being taken in turn."""
    if reads.common:
        return SHORTEST_WITH_COMMON
    return SHORTEST_WITH_EXPONENTIALS if takes_exponentials(kernel) else SHORTEST


def takes_exponentials(kernel: Kernel) -> bool:
    """True when an exponential of each element is computed, as in a softmax's results."""
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
    """How a multiprocessor may be divided, best first.

    The programs, what each keeps in registers, the least and the most slots of their rings. Where
    programs are few, something must be on its way while they wait for each other, so a ring has
    more than a row's blocks; of fp32 layer_norm, with 14 slots for 8 blocks it was quickest.
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
    """The shared memory for one of so many programs of a multiprocessor, but for Triton's own."""
    return (gpu.shared + RESERVED_SHARED) // together - RESERVED_SHARED - RING_START
