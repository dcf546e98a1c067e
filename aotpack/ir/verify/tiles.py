"""What makes the tiles of a Schedule legal, and what says so of a schedule that is not."""

from collections.abc import Iterable

from aotpack.ir.kernels.kernel import (
    Kernel,
    Schedule,
    block_count,
    gpu_variants,
    launches,
    look_back_slots,
)
from aotpack.ir.kernels.last_block import is_made_in_groups
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import WARP, PointwiseTile, ReductionTile
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Int


class InvalidSchedule(Exception):
    """An invariant of the schedule is broken. Its text is the place, then the schedule."""

    def __init__(self, schedule: Schedule, kernel: Kernel | None, message: str) -> None:
        place = f"kernel {kernel.name}: " if kernel else ""
        super().__init__(f"{place}{message}\n\n{schedule}")


def check_shared_launches(schedule: Schedule) -> None:
    """Kernels of one launch have one GPU tile each, as many warps, and numbers of programs."""
    for together in launches(schedule.kernels):
        if len(together) == 1 or together[1].runs_in_last_block:
            continue
        warps = {variant.tile.num_warps for k in together for variant in gpu_variants(k)}
        for kernel in together:
            tiles = [variant.tile for variant in gpu_variants(kernel)]
            counts = [
                block_count(kernel, tile).constant
                for tile in tiles
                if isinstance(tile, (PointwiseTile, ReductionTile))
            ]
            if len(tiles) != 1 or counts in ([], [None]) or len(warps) > 1:
                message = f"the tiles {_list(tiles)} do not share a launch"
                raise InvalidSchedule(schedule, kernel, message)


def check_variants(schedule: Schedule) -> None:
    """For every architecture a kernel has variants, of which the last alone takes everything."""
    for kernel in (kernel for kernel in schedule.kernels if not kernel.is_opaque):
        for arch in {0, *(variant.arch_low for variant in kernel.variants)}:
            fitting = [variant for variant in kernel.variants if variant.takes(arch)]
            unlimited = [variant.takes_everything for variant in fitting]
            if unlimited != [False] * (len(fitting) - 1) + [True]:
                message = f"for architecture {arch} there are {len(fitting)} variants,"
                message += f" {unlimited.count(True)} of them without limit"
                raise InvalidSchedule(schedule, kernel, message)


def check_look_back(schedule: Schedule) -> None:
    """Programs that wait for those before them only scan, and have a place for each state."""
    for kernel in schedule.kernels:
        tiles = [tile for variant in kernel.variants for tile in variant.tiles]
        for tile in (t for t in tiles if isinstance(t, ReductionTile) and t.look_back):
            scans = [m.operation for m in kernel.members if isinstance(m.operation, Scan)]
            others = [m for m in kernel.members if m.outer or isinstance(m.operation, Reduction)]
            room = (kernel.axes[0].extent, look_back_slots(kernel, tile))
            rooms = {buffer.shape for buffer in kernel.exchange}
            counters = [counter.shape for counter in kernel.counters]
            wanted = [(Int.of(2),), *[room] * len(scans)]
            if not scans or others or tile.x > 1 or rooms != {room} or counters != wanted:
                raise InvalidSchedule(schedule, kernel, "its programs cannot wait for each other")


def check_last_block(schedule: Schedule) -> None:
    """A kernel in last blocks reads what its own group makes, and has its tiles and counters."""
    for first, *others in launches(schedule.kernels):
        if not any(kernel.runs_in_last_block for kernel in others):
            continue
        shapes = [counter.shape for kernel in others for counter in kernel.counters]
        made = {name for kernel in others for name in kernel.stored}
        for second in others:
            tiles = list(zip(gpu_variants(first), gpu_variants(second), strict=False))
            legal = second.runs_in_last_block and made.isdisjoint(second.reads)
            legal &= len(tiles) == len(gpu_variants(first)) == len(gpu_variants(second))
            for walk, close in ((a.tile, b.tile) for a, b in tiles):
                if not isinstance(walk, ReductionTile) or not isinstance(close, ReductionTile):
                    legal = False
                    break
                legal &= (walk.x, walk.num_warps) == (close.x, close.num_warps)
                legal &= shapes == [(block_count(second, close),)]
                legal &= is_made_in_groups(first, second, schedule.program, close.x)
            if not legal:
                raise InvalidSchedule(schedule, second, f"cannot complete {first.name}")


def check_candidates(schedule: Schedule) -> None:
    """What else a launch could take walks over memory as its first tile does."""
    for kernel in schedule.kernels:
        for variant in kernel.variants:
            if len({(type(tile), getattr(tile, "persistent", None)) for tile in variant.tiles}) > 1:
                message = f"the tiles {_list(variant.tiles)} are of different kinds"
                raise InvalidSchedule(schedule, kernel, message)


def check_cluster_reductions(schedule: Schedule) -> None:
    """Programs that share a row have equal parts of it, and tell each other in shared memory."""
    for kernel in schedule.kernels:
        tiles = [tile for variant in kernel.variants for tile in variant.tiles]
        for tile in (tile for tile in tiles if isinstance(tile, ReductionTile)):
            if tile.cluster_size == 1:
                continue
            together = tile.cluster_size
            is_whole = known_multiple(kernel.axes[1].extent, together) and tile.x == 1
            walks = any(isinstance(member.operation, Scan) for member in kernel.members)
            if walks or not is_whole or kernel.exchange:
                message = f"{together} programs cannot share its rows"
                raise InvalidSchedule(schedule, kernel, message)


def check_row_pipelines(schedule: Schedule) -> None:
    """Who goes from row to row has room for a row's part in its ring, a vector for each thread."""
    for kernel in schedule.kernels:
        tiles = [tile for variant in kernel.variants for tile in variant.tiles]
        for tile in (t for t in tiles if isinstance(t, ReductionTile) and (t.ring or t.resident)):
            reads = row_reads(kernel, schedule.strides, schedule.program.buffers)
            part = kernel.axes[1].extent.constant
            if (
                reads is None
                or part is None
                or part % (tile.cluster_size * reads.vector)
                or part > tile.cluster_size * tile.r * tile.ring
                or tile.r != WARP * tile.num_warps * reads.vector
                or tile.group not in (1, reads.vector)
                or tile.persistent
                or tile.x > 1
                or tile.cluster_size == 1
                or not tile.resident
                or not 0 <= tile.kept <= len(reads.common)
            ):
                raise InvalidSchedule(schedule, kernel, "its rows cannot be taken in turn")


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"
