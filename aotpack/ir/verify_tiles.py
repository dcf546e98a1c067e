"""What makes the tiles of a Schedule legal, and what says so of a schedule that is not.

Rows S:A4.
"""

from collections.abc import Iterable

from aotpack.ir.facts import known_multiple
from aotpack.ir.integers import Int
from aotpack.ir.nodes import Scan
from aotpack.ir.schedule import (
    Kernel,
    PointwiseTile,
    ReductionTile,
    Schedule,
    block_count,
    gpu_variants,
    launches,
)


class InvalidSchedule(Exception):
    """An invariant of the schedule is broken. Its text is the place, then the schedule."""

    def __init__(self, schedule: Schedule, kernel: Kernel | None, message: str) -> None:
        place = f"kernel {kernel.name}: " if kernel else ""
        super().__init__(f"{place}{message}\n\n{schedule}")


def check_joined(schedule: Schedule) -> None:
    """Kernels of one launch have one GPU tile each, as many warps, and numbers of programs."""
    for together in launches(schedule.kernels):
        if len(together) == 1:
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
            fitting = [v for v in kernel.variants if v.arch_low <= arch <= v.arch_high]
            unlimited = [variant.takes_everything for variant in fitting]
            if unlimited != [False] * (len(fitting) - 1) + [True]:
                message = f"for architecture {arch} there are {len(fitting)} variants,"
                message += f" {unlimited.count(True)} of them without limit"
                raise InvalidSchedule(schedule, kernel, message)


def check_candidates(schedule: Schedule) -> None:
    """What else a launch could take walks over memory as its first tile does."""
    for kernel in schedule.kernels:
        for variant in kernel.variants:
            if len({(type(tile), getattr(tile, "persistent", None)) for tile in variant.tiles}) > 1:
                message = f"the tiles {_list(variant.tiles)} are of different kinds"
                raise InvalidSchedule(schedule, kernel, message)


def check_shared_rows(schedule: Schedule) -> None:
    """Programs that share a row have equal parts of it, and a place for each state of each."""
    for kernel in schedule.kernels:
        tiles = [tile for variant in kernel.variants for tile in variant.tiles]
        for tile in (tile for tile in tiles if isinstance(tile, ReductionTile)):
            if tile.cluster_size == 1:
                continue
            together = tile.cluster_size
            is_whole = known_multiple(kernel.axes[1].extent, together) and tile.x == 1
            rooms = {buffer.shape for buffer in kernel.exchange}
            walks = any(isinstance(member.operation, Scan) for member in kernel.members)
            if walks or not is_whole or rooms != {(kernel.axes[0].extent, Int.of(together))}:
                message = f"{together} programs cannot share its rows"
                raise InvalidSchedule(schedule, kernel, message)


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"
