"""Rows that programs take in turn: while one is worked on, those that follow are copied.

    walk 1: await block 0, reduce | await block 1, reduce | ...       the copies of before
    walk 2: write block 0, copy the next row's | write block 1, ...   the copies of afterwards

A row, or the part of it that a program of a cluster has, lies in shared memory, so it is read from
memory once, and reads never stop. What all rows need, such as weights, stays there too, where each
row would read it from L2 again; there is then room for few programs, whose rings go on into the
next row, so that enough is on its way while they wait for each other. Without it programs are many.

Measured on an H200 (``docs/benchmarks.md``). Rows C:B16, B18.
"""

from aotpack.devices import GPUS
from aotpack.ir.access import Strides
from aotpack.ir.nodes import Program
from aotpack.ir.row_reads import RowReads, row_reads
from aotpack.ir.schedule import Kernel, ReductionTile
from aotpack.schedule.row_tiles import WARP
from aotpack.stages import RING_START

IN_TURN = (90, 99)  # architectures on which it was measured
GPU = GPUS[90]
BLOCK_SHARED = 1024  # bytes that a block takes beside what it asks for
ROOM = 1024  # bytes for states, at most
SHORTEST = {True: 60_000, False: 120_000}  # bytes of a row, with and without something in common
PART = 32 * 1024  # bytes of a stream that a program has of a row
CLUSTERS = {1: 132, 2: 66, 4: 30, 8: 15}  # that run at once, one program a multiprocessor
MOST_TOGETHER = {True: 2, False: 4}  # programs of a multiprocessor


def tile_in_turn(kernel: Kernel, program: Program, strides: Strides) -> ReductionTile | None:
    """The tile of a kernel whose long rows are taken in turn; None if they are not."""
    row = kernel.axes[1].extent.constant
    reads = row_reads(kernel, strides, program.buffers)
    if row is None or reads is None:
        return None
    shares = bool(reads.common)
    if row * reads.width < SHORTEST[shares]:
        return None
    fitting = [n for n in CLUSTERS if row * reads.width <= n * PART]
    cluster = min(fitting, default=max(CLUSTERS))
    if row % (cluster * reads.vector):
        return None
    warps = 16 if reads.width == 4 and len(reads.streams) == 1 else 8
    block = WARP * warps * reads.vector
    blocks = -(-row // (cluster * block))
    for together in range(MOST_TOGETHER[shares], 0, -1):
        ring = _slots(reads, block, blocks, together)
        if ring >= blocks + (shares and together > 1):
            return ReductionTile(
                1,
                block,
                persistent=False,
                num_warps=warps,
                group=reads.vector,
                cluster_size=cluster,
                resident=CLUSTERS[cluster] * together,
                ring=ring if shares else blocks,
            )
    return None


def _slots(reads: RowReads, block: int, blocks: int, together: int) -> int:
    """The blocks for which one of so many programs of a multiprocessor has room."""
    room = (GPU.shared + BLOCK_SHARED) // together - BLOCK_SHARED - RING_START - ROOM
    return (room - reads.common_bytes(0, block, blocks)) // reads.slot_bytes(block)
