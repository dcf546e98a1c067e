"""Candidates that tuning times, best guess first: neighbours of the tile that the tables choose.

All are legal wherever the first is: a row kept in registers stays there, so the choice does not
decide what may be overwritten in place.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import log2

from aotpack.ir.kernels.tiles import WARP, PointwiseTile, ReductionTile, Tile, Tile2D, Variant
from aotpack.schedule.tiles.row_tiles import MOST_WARPS

MOST_OTHERS = 5
MOST_ELEMENTS = 64  # of a tile in each thread; more would not stay in registers
PLANES = ((64, 64, 4), (32, 64, 4), (64, 32, 4), (32, 32, 4), (128, 64, 8), (64, 64, 8))
BLOCKS = tuple((x, warps) for x in (128, 256, 512, 1024, 2048) for warps in (2, 4, 8))


def with_others(variant: Variant) -> Variant:
    """The variant with neighbours of its tile as candidates, unless it has some."""
    if variant.others:
        return variant
    found = dict.fromkeys(tile for tile in _neighbours(variant.tile) if tile != variant.tile)
    return replace(variant, others=tuple(found)[:MOST_OTHERS])


def _neighbours(tile: Tile) -> Iterator[Tile]:
    """Tiles of the same kind; products and CPUs have their own lists."""
    if isinstance(tile, PointwiseTile):
        yield from _blocks(tile)
    elif isinstance(tile, Tile2D):
        for y, x, warps in () if tile.z else PLANES:
            yield replace(tile, y=y, x=x, num_warps=warps)
    elif isinstance(tile, ReductionTile) and not tile.ring:
        near = _windows if tile.unrolled else _rows if tile.persistent else _walks
        yield from filter(_is_sensible, near(tile))


def _blocks(tile: PointwiseTile) -> list[PointwiseTile]:
    """Blocks with 1 to 8 elements a thread; the most similar come first."""
    near = [b for b in BLOCKS if 1 <= b[0] / (WARP * b[1]) <= 8 and b != (tile.x, tile.num_warps)]
    near.sort(key=lambda b: (abs(log2(b[0] / tile.x)) + abs(log2(b[1] / tile.num_warps)), b))
    return [replace(tile, x=x, num_warps=warps) for x, warps in near]


def _rows(tile: ReductionTile) -> Iterator[ReductionTile]:
    """Whole rows: more or fewer warps for a row, more or fewer rows for a program."""
    yield replace(tile, num_warps=tile.num_warps * 2)
    yield replace(tile, num_warps=tile.num_warps // 2)
    yield replace(tile, x=tile.x * 2, num_warps=tile.num_warps * 2)
    yield replace(tile, x=tile.x * 2)
    yield replace(tile, x=tile.x // 2)
    yield replace(tile, num_warps=tile.num_warps * 4)


def _windows(tile: ReductionTile) -> Iterator[ReductionTile]:
    """Rows across lanes: more or fewer for each thread, more or fewer warps."""
    yield replace(tile, x=tile.x // 2)
    yield replace(tile, x=tile.x * 2)
    yield replace(tile, x=tile.x // 2, num_warps=tile.num_warps // 2)
    yield replace(tile, x=tile.x * 2, num_warps=tile.num_warps * 2)


def _walks(tile: ReductionTile) -> Iterator[ReductionTile]:
    """Rows in blocks: longer or shorter blocks, more or fewer warps, fewer steps at once."""
    yield replace(tile, r=tile.r // 2)
    yield replace(tile, r=tile.r * 2)
    yield replace(tile, r=tile.r // 2, num_warps=tile.num_warps // 2)
    yield replace(tile, num_warps=tile.num_warps * 2)
    yield replace(tile, x=tile.x * 2, r=tile.r // 2)
    yield replace(tile, unroll=max(1, tile.unroll // 2))


def _is_sensible(tile: ReductionTile) -> bool:
    """True for a tile whose threads have work, and registers for it."""
    threads, elements = WARP * tile.num_warps, tile.x * tile.r
    if tile.unrolled:
        return 1 <= tile.num_warps <= MOST_WARPS and threads <= tile.x <= 8 * threads
    if (tile.cluster_size > 1 or tile.look_back) and tile.x > 1:
        return False
    most = MOST_WARPS if tile.persistent else 2 * MOST_WARPS
    if not (1 <= tile.num_warps <= most and tile.x >= 1 and tile.r >= tile.group):
        return False
    whole = tile.persistent or elements >= threads
    return whole and elements <= MOST_ELEMENTS * threads
