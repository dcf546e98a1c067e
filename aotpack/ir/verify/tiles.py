"""The legality of the tiles of a Schedule, and the error of an illegal schedule."""

from collections.abc import Iterable

from aotpack.ir.kernels.appended_rows import appended_rows
from aotpack.ir.kernels.grouped_heads import with_grouped_heads
from aotpack.ir.kernels.kernel import (
    Kernel,
    Schedule,
    block_count,
    gpu_variants,
    launches,
    look_back_slots,
)
from aotpack.ir.kernels.key_splits import CLUSTER_SIZES, MOST_SENT, part_bytes, row_tiles
from aotpack.ir.kernels.last_block import is_made_in_groups
from aotpack.ir.kernels.partial_sums import needed_parts
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import (
    WARP,
    AttentionTile,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Tile,
    TurnsTile,
    Variant,
)
from aotpack.ir.kernels.turns import Turns, turns_of
from aotpack.ir.operations import Matmul, Reduction, Scan
from aotpack.ir.symbolic.facts import bounds, known_le, known_multiple
from aotpack.ir.symbolic.integers import Int, product


class InvalidSchedule(Exception):
    """An invariant of the schedule is broken. Its text is the fault, then the schedule."""

    def __init__(self, schedule: Schedule, kernel: Kernel | None, message: str) -> None:
        place = f"kernel {kernel.name}: " if kernel else ""
        super().__init__(f"{place}{message}\n\n{schedule}")


def check_shared_launches(schedule: Schedule) -> None:
    """Kernels of one launch have one GPU tile each for all sizes, of loops, and equal warps."""
    for together in launches(schedule.kernels):
        if len(together) == 1 or together[1].runs_in_last_block:
            continue
        warps = {variant.tile.num_warps for k in together for variant in gpu_variants(k)}
        for kernel in together:
            variants = gpu_variants(kernel)
            tiles = [variant.tile for variant in variants]
            are_loops = all(isinstance(tile, (PointwiseTile, ReductionTile)) for tile in tiles)
            is_one = len(variants) == 1 and variants[0].takes_everything
            if not (is_one and are_loops) or len(warps) > 1:
                message = f"the tiles {listed(tiles)} do not share a launch"
                raise InvalidSchedule(schedule, kernel, message)


def check_variants(schedule: Schedule) -> None:
    """A kernel has variants for every architecture; exactly the last of them takes all sizes."""
    for kernel in (kernel for kernel in schedule.kernels if not kernel.is_opaque):
        for arch in {0, *(variant.arch_low for variant in kernel.variants)}:
            fitting = [variant for variant in kernel.variants if variant.takes(arch)]
            unlimited = [variant.takes_everything for variant in fitting]
            if unlimited != [False] * (len(fitting) - 1) + [True]:
                message = f"for architecture {arch} there are {len(fitting)} variants,"
                message += f" {unlimited.count(True)} of them without limit"
                raise InvalidSchedule(schedule, kernel, message)


def check_look_back(schedule: Schedule) -> None:
    """A kernel with look-back only scans, and has exchange memory for each state."""
    for kernel in schedule.kernels:
        tiles = [tile for variant in kernel.variants for tile in variant.tiles]
        for tile in (t for t in tiles if isinstance(t, ReductionTile) and t.look_back):
            scans = [m.operation for m in kernel.members if isinstance(m.operation, Scan)]
            others = [m for m in kernel.members if m.outer or isinstance(m.operation, Reduction)]
            shape = (kernel.axes[0].extent, look_back_slots(kernel, tile))
            shapes = {buffer.shape for buffer in kernel.exchange}
            counters = [counter.shape for counter in kernel.counters]
            wanted = [(Int.of(2),), *[shape] * len(scans)]
            if not scans or others or tile.x > 1 or shapes != {shape} or counters != wanted:
                raise InvalidSchedule(schedule, kernel, "its programs cannot wait for each other")


def check_split_sums(schedule: Schedule) -> None:
    """Programs share a sum if there is memory for each part, and a counter for each tile."""
    for kernel in schedule.kernels:
        for variant, tile in ((v, tile) for v in kernel.variants for tile in v.tiles):
            needed = needed_parts(kernel, variant, tile)
            if any(needed) and not (
                _can_share(kernel, variant, tile) and _has_room(kernel, needed)
            ):
                message = f"programs with the tile {tile} cannot share its sums"
                raise InvalidSchedule(schedule, kernel, message)


def check_first_keys(schedule: Schedule) -> None:
    """Programs that request keys before they wait read caches that the program updates later."""
    updated = {update.name for update in schedule.program.updates}
    for kernel in schedule.kernels:
        for tile in (tile for variant in kernel.variants for tile in variant.tiles):
            if not isinstance(tile, AttentionTile) or not tile.keys_first:
                continue
            rows = appended_rows(with_grouped_heads(kernel, tile.heads)[1])
            are_old = bool(rows) and all(row.cached.buffer in updated for row in rows)
            if not are_old or not tile.most_programs or tile.descriptors:
                message = f"programs with the tile {tile} may not request keys before they wait"
                raise InvalidSchedule(schedule, kernel, message)


def _can_share(kernel: Kernel, variant: Variant, tile: Tile) -> bool:
    template_op = kernel.template_op
    if isinstance(tile, MatmulTile) and isinstance(template_op, Matmul):
        return tile.may_split and template_op.k.extent.constant is not None
    assert isinstance(tile, AttentionTile)
    attention = with_grouped_heads(kernel, tile.heads)[1]
    tiles = row_tiles(attention, tile)
    limited = variant.at_most is not None and variant.measure is tiles
    most = variant.at_most if limited else bounds(tiles)[1]
    return not attention.causal and most is not None and 2 * most <= tile.most_programs


def _has_room(kernel: Kernel, needed: tuple[int, int]) -> bool:
    sizes = [product(buffer.shape) for buffer in (*kernel.exchange, *kernel.counters)]
    return len(sizes) == 2 and all(map(known_le, needed, sizes))


def check_last_block(schedule: Schedule) -> None:
    """A kernel in last blocks reads what its own group makes; tiles and counters match."""
    for first, *others in launches(schedule.kernels):
        if not any(kernel.runs_in_last_block for kernel in others):
            continue
        shapes = [counter.shape for kernel in others for counter in kernel.counters]
        made = {name for kernel in others for name in kernel.stored}
        for second in others:
            tiles = list(zip(gpu_variants(first), gpu_variants(second), strict=False))
            legal = second.runs_in_last_block and made.isdisjoint(second.reads)
            legal &= len(tiles) == len(gpu_variants(first)) == len(gpu_variants(second))
            for earlier, later in ((a.tile, b.tile) for a, b in tiles):
                if not isinstance(earlier, ReductionTile) or not isinstance(later, ReductionTile):
                    legal = False
                    break
                legal &= (earlier.x, earlier.num_warps) == (later.x, later.num_warps)
                legal &= shapes == [(block_count(second, later),)]
                legal &= is_made_in_groups(first, second, schedule.program, later.x)
            if not legal:
                raise InvalidSchedule(
                    schedule, second, f"cannot run in last blocks of {first.name}"
                )


def check_candidates(schedule: Schedule) -> None:
    """The candidates of a variant are of one kind, so they loop over memory alike."""
    for kernel in schedule.kernels:
        for variant in kernel.variants:
            if len({(type(tile), getattr(tile, "persistent", None)) for tile in variant.tiles}) > 1:
                message = f"the tiles {listed(variant.tiles)} are of different kinds"
                raise InvalidSchedule(schedule, kernel, message)


def check_cluster_reductions(schedule: Schedule) -> None:
    """Programs of a cluster have equal parts of a row, and exchange states in shared memory."""
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


def check_clusters_of_keys(schedule: Schedule) -> None:
    """Programs of a cluster that share keys send parts for which shared memory has room."""
    for kernel in schedule.kernels:
        for tile in (tile for variant in kernel.variants for tile in variant.tiles):
            if not isinstance(tile, AttentionTile) or tile.cluster_size == 1:
                continue
            attention = with_grouped_heads(kernel, tile.heads)[1]
            size = tile.cluster_size * part_bytes(attention, tile)
            is_possible = tile.cluster_size in CLUSTER_SIZES and size <= MOST_SENT
            if not is_possible or not tile.most_programs or attention.causal:
                message = f"programs with the tile {tile} cannot share keys in a cluster"
                raise InvalidSchedule(schedule, kernel, message)


def check_turns(schedule: Schedule) -> None:
    """A loop is a launch whose programs have all units, and room for the states of two turns."""
    for kernel in schedule.kernels:
        for tile in (one.tile for one in kernel.variants if isinstance(one.tile, TurnsTile)):
            turns = turns_of(kernel)
            if turns is None or not _has_states(kernel, turns, tile):
                raise InvalidSchedule(schedule, kernel, "its turns are not one launch")


def _has_states(kernel: Kernel, turns: Turns, tile: TurnsTile) -> bool:
    """True if programs that exchange a state are one cluster, with memory for it."""
    if not turns.windows:
        return (tile.cluster_size, tile.depth, kernel.exchange) == (1, 0, ())
    units = turns.unit.extent
    is_whole = known_le(units, tile.cluster_size * tile.units) and known_le(units, tile.depth)
    shapes = [buffer.shape for buffer in kernel.exchange]
    return is_whole and shapes == [(Int.of(2), turns.row.extent, units)]


def check_row_pipelines(schedule: Schedule) -> None:
    """The ring of a row pipeline holds a program's part of a row, in a vector for each thread."""
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


def listed(items: Iterable[object]) -> str:
    """``[a, b]``, for messages."""
    return f"[{', '.join(map(str, items))}]"
