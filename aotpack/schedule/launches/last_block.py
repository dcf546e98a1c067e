"""Last blocks: the last programs of a kernel to arrive run the small kernel behind it.

    launch a; launch b (reads what a made)        ->        launch a, of which some run b

A launch costs as much as reading a few megabytes. The second kernel keeps its order of operations,
so the order of arrival changes no bit. ``ir/kernels/last_block.py`` checks that programs match;
each launch has its own counters.
"""

from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, block_count, gpu_variants
from aotpack.ir.kernels.key_splits import power_of_two
from aotpack.ir.kernels.last_block import is_made_in_groups
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.names import free_name
from aotpack.ir.program import Buffer, Program, expand_concats
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.launches.horizontal import is_small

LONGEST = 4096  # elements of a row, or of a block of rows, that one program reads while others wait
RARELY = 4  # times a typical length
ELEMENTS = 64  # of a tile in each thread


def run_in_last_block(
    program: Program, kernels: tuple[Kernel, ...], gpu: Gpu
) -> tuple[Kernel, ...]:
    """Let the last programs of a kernel to arrive run the small kernel behind it."""
    launches: list[list[Kernel]] = []
    for kernel in kernels:
        moved = _in_last_block(launches[-1], kernel, program, gpu) if launches else None
        if moved is None:
            launches.append([kernel])
        else:
            launches[-1].append(moved)
    return tuple(kernel for launch in launches for kernel in launch)


def _in_last_block(
    launch: list[Kernel], second: Kernel, program: Program, gpu: Gpu
) -> Kernel | None:
    """A kernel that runs in the last blocks of a launch; None where it cannot."""
    first, *others = launch
    first_tiles, second_tiles = _row_tiles(first), _row_tiles(second)
    if not first_tiles or not second_tiles or is_small(first, program, gpu):
        return None
    if _overwrites(second, launch, program):
        return None
    blocks = {tile.x for tile in first_tiles}
    if len(blocks) > 1 or any(
        tile.cluster_size > 1 or tile.look_back or tile.apart
        for tile in (*first_tiles, *second_tiles)
    ):
        return None  # unequal blocks make no groups; clusters and look-backs exchange states
    (block,) = blocks
    if not is_made_in_groups(first, second, program, block):
        return None
    own = _in_blocks(second, second_tiles[-1])
    last_tile = _last_block_tile(second, own, block, first_tiles[0].num_warps)
    if last_tile is None or (others and others[0].counters[0].shape != _groups(second, last_tile)):
        return None
    variants = tuple(
        replace(variant, tile=replace(last_tile, num_warps=tile.num_warps), others=(own,))
        for variant, tile in zip(gpu_variants(first), first_tiles, strict=True)
    )
    name = free_name(f"{second.stored[0]}_arrived", program.buffers)
    counters = () if others else (Buffer(name, DType.INT32, _groups(second, last_tile)),)
    hosts = tuple(variant for variant in second.variants if variant.arch_high == 0)
    return replace(
        second,
        variants=(*hosts, *variants),
        shares_launch=True,
        runs_in_last_block=True,
        counters=counters,
    )


def _groups(kernel: Kernel, tile: ReductionTile) -> tuple[Int]:
    return (block_count(kernel, tile),)


def _row_tiles(kernel: Kernel) -> list[ReductionTile]:
    """The tiles GPUs take first, if the kernel is a reduction; none for any other."""
    tiles = [variant.tile for variant in gpu_variants(kernel)]
    rows = [tile for tile in tiles if isinstance(tile, ReductionTile)]
    return rows if len(rows) == len(tiles) and not kernel.is_opaque else []


def _overwrites(second: Kernel, launch: list[Kernel], program: Program) -> bool:
    """True when a kernel must wait for the whole launch, or be alone in its kernel.

    It would write where the launch still reads, or read what another kernel in last blocks writes.
    """
    first, *others = launch
    if any(not set(second.reads).isdisjoint(other.stored) for other in others):
        return True
    homes = {update.value: update.name for update in program.updates}
    alone = any(program.buffers[name].unfusable for name in (*first.stored, *second.stored))
    parts = {*expand_concats(second.reads, program)} - {*second.reads}
    joined = not parts.isdisjoint(first.stored)
    return (
        alone
        or joined
        or any(homes.get(name, name) in kernel.reads for name in second.stored for kernel in launch)
    )


def _in_blocks(kernel: Kernel, tile: ReductionTile) -> ReductionTile:
    """The tile; for a row in registers that is rarely so long, a loop."""
    length = max(typical(kernel.axes[1].extent), WARP * tile.num_warps)
    if not tile.persistent or tile.x > 1 or RARELY * length > tile.r:
        return tile
    return replace(tile, persistent=False, r=power_of_two(length))


def _last_block_tile(
    kernel: Kernel, own: ReductionTile, block: int, warps: int
) -> ReductionTile | None:
    """The tile with this many rows and warps; None if one program would have too much work."""
    longest = bounds(kernel.axes[1].extent)[1]
    if longest > LONGEST or own.cluster_size > 1:
        return None
    most = ELEMENTS * WARP * warps // block
    if own.persistent and own.r > most:
        return None
    return replace(own, x=block, r=min(own.r, most), num_warps=warps, group=1, unroll=1)
