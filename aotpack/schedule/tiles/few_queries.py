"""Tiles of attention of few queries: heads with the same keys together, keys in parts.

One query over a cache is memory-bound: keys and values are read once, by as many programs as keep
all multiprocessors loading.
"""

from collections.abc import Iterator
from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.grouped_heads import heads_together, over_grouped_heads
from aotpack.ir.kernels.key_splits import (
    SMALLEST_DOT,
    key_splits,
    padded,
    power_of_two,
    row_tiles,
)
from aotpack.ir.kernels.tiles import AttentionTile, Tile, Variant
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds

MOST_ROWS = 64  # of heads with the same keys
MOST_ELEMENTS = 16_384  # of a tile of results, in registers
PROGRAMS = 2  # for each multiprocessor
OTHERS = ((32, 4, 4), (64, 4, 4), (128, 4, 2), (128, 8, 3), (64, 4, 2), (32, 2, 4), (128, 4, 3))
"""Keys, warps and stages of candidates."""
MOST_DYNAMIC_TILES = 4  # for each head, where the number of queries is dynamic


def few_queries(attention: Attention, arches: tuple[int, int], gpu: Gpu) -> tuple[Variant, ...]:
    """Variants for few queries, on a range of architectures; none if there are always more.

    The last takes all sizes if there are never more.
    """
    together = heads_together(attention)
    low, high = bounds(attention.i.extent * together)
    most_rows = MOST_ROWS if together > 1 else SMALLEST_DOT
    limit = min(most_rows, MOST_ELEMENTS // padded(attention.e))
    if attention.causal or low > limit or limit < SMALLEST_DOT:
        return ()
    is_always_few = high <= limit
    rows = max(SMALLEST_DOT, power_of_two(int(high))) if is_always_few else SMALLEST_DOT
    tile = replace(_tile(attention, rows), heads=together)
    found = list(_split(attention, tile, arches, gpu, is_always_few=is_always_few))
    if not found or found[-1].at_most is not None:
        most = None if is_always_few else limit // together
        found.append(Variant(tile, *arches, attention.i.extent, most))
    return tuple(found)


def _tile(attention: Attention, rows: int) -> AttentionTile:
    head = max(padded(attention.d), padded(attention.e))
    if attention.operand is DType.FLOAT32:
        return AttentionTile(rows, 32 if head > 64 else 64, 4, 2, "bf16x6")
    return AttentionTile(rows, 64 if head <= 128 else 32, 4, 3)


def _split(
    attention: Attention,
    tile: AttentionTile,
    arches: tuple[int, int],
    gpu: Gpu,
    *,
    is_always_few: bool,
) -> Iterator[Variant]:
    """The variant whose keys are split, while its tiles keep less than half of the GPU busy."""
    programs = PROGRAMS * gpu.multiprocessors
    grouped = over_grouped_heads(attention, tile.heads)[0]
    split, tiles = replace(tile, most_programs=programs), row_tiles(grouped, tile)
    fewest, most = bounds(tiles)
    limit = programs // 2
    if not is_always_few:
        limit = min(limit, MOST_DYNAMIC_TILES * int(fewest))
    if fewest > limit or bounds(key_splits(grouped, split))[1] == 1:
        return
    yield Variant(split, *arches, tiles, None if is_always_few and most <= limit else limit)


def with_fixed_splits(tile: Tile, attention: Attention) -> Tile:
    """The tile with keys in parts only if equally many share them for all sizes."""
    if not isinstance(tile, AttentionTile):
        return tile
    grouped = over_grouped_heads(attention, tile.heads)[0]
    if key_splits(grouped, tile).constant is not None:
        return tile
    return replace(tile, most_programs=0)


def other_tiles(tile: AttentionTile) -> Iterator[AttentionTile]:
    """Candidates for tuning."""
    for keys, warps, stages in OTHERS:
        yield replace(tile, j=keys, num_warps=warps, num_stages=stages)
