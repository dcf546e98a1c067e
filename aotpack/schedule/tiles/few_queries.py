"""Tiles of attention of few queries: heads with the same keys together, keys in parts.

One query over a cache is memory-bound: keys and values are read once, by as many programs as keep
all multiprocessors loading. More of them read memory in shorter runs, and have more parts to add;
longer steps have fewer waits. Where the cache is as an earlier call left it, programs request their
first keys before they wait, and those of a tile are a cluster that adds its parts. On an H200 16384
keys of 8 heads of 128 took 20.8 us in 128 programs with 128 keys a step, 22.3 with 64, 24.1 in 264
programs with 64 (2026-11-28).
"""

from collections.abc import Container, Iterator
from dataclasses import replace
from math import ceil

from aotpack.devices import Gpu
from aotpack.early_start import FIRST_ARCH
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.appended_rows import appended_rows
from aotpack.ir.kernels.grouped_heads import heads_together, over_grouped_heads
from aotpack.ir.kernels.key_splits import (
    FEWEST_KEYS,
    MOST_SENT,
    SMALLEST_DOT,
    key_splits,
    padded,
    part_bytes,
    power_of_two,
    row_tiles,
)
from aotpack.ir.kernels.tiles import AttentionTile, Tile, Variant
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import ceil_div

MOST_ROWS = 64  # of heads with the same keys
MOST_ELEMENTS = 8192  # of a tile of results, in registers
MOST_SINGLE = 2048  # the same of float32 factors, which are split into parts
NARROW_HEAD, WIDE_HEAD = 64, 128  # elements
OTHERS = ((32, 4, 4), (64, 4, 4), (128, 4, 2), (128, 8, 3), (64, 4, 2), (32, 2, 4), (128, 4, 3))
"""Keys, warps and stages of candidates."""
FIRST_OTHERS = ((64, 4, 1), (128, 8, 1))  # of programs that request their first keys early
MOST_DYNAMIC_TILES = 4  # for each head, where the number of queries is dynamic
MOST_FIRST_STEPS = 2  # of a program that requests its first keys before it waits
MOST_CLUSTER_KEYS = 2**20  # that are seen, of sizes without an end


def few_queries(
    attention: Attention, arches: tuple[int, int], gpu: Gpu, updated: Container[str] = ()
) -> tuple[Variant, ...]:
    """Variants for few queries, on a range of architectures; none if there are always more.

    The last takes all sizes if there are never more. The program, if it is no part, writes
    ``updated`` tensors behind their readers.
    """
    together = heads_together(attention)
    low, high = bounds(attention.i.extent * together)
    limit = _most_rows(attention) if together > 1 else SMALLEST_DOT
    if attention.causal or low > limit:
        return ()
    is_always_few = high <= limit
    rows = max(SMALLEST_DOT, power_of_two(int(high))) if is_always_few else SMALLEST_DOT
    found = list(
        _split(attention, rows, together, arches, gpu, updated, is_always_few=is_always_few)
    )
    if not found or found[-1].at_most is not None:
        whole = replace(_whole_tile(attention, rows), heads=together)
        most = None if is_always_few else limit // together
        found.append(Variant(whole, *arches, attention.i.extent, most))
    return tuple(found)


def _most_rows(attention: Attention) -> int:
    elements = MOST_SINGLE if attention.operand is DType.FLOAT32 else MOST_ELEMENTS
    return max(SMALLEST_DOT, min(MOST_ROWS, elements // padded(attention.e)))


def _parts_tile(attention: Attention, rows: int) -> tuple[AttentionTile, int]:
    """The tile where keys are split, and how many programs each multiprocessor has (measured)."""
    head = max(padded(attention.d), padded(attention.e))
    is_narrow = head <= NARROW_HEAD and rows == SMALLEST_DOT
    if is_narrow and attention.operand is not DType.FLOAT32:
        return AttentionTile(rows, 64, 2, 3), 2
    return _whole_tile(attention, rows), 1


def _first_keys_tile(
    attention: Attention, rows: int, updated: Container[str]
) -> AttentionTile | None:
    """The tile of programs that request their first keys before they wait, if there is one.

    These keys are in registers. Nothing in a call has written a cache that it updates later.
    """
    head, found = max(padded(attention.d), padded(attention.e)), appended_rows(attention)
    if not found or not all(one.cached.buffer in updated for one in found):
        return None
    if attention.operand is DType.FLOAT32:
        return None
    if rows > SMALLEST_DOT or head > WIDE_HEAD:
        return None
    return AttentionTile(rows, 128 if head <= NARROW_HEAD else 64, 4, 1, keys_first=True)


def _whole_tile(attention: Attention, rows: int) -> AttentionTile:
    """The tile of programs that see all keys."""
    head = max(padded(attention.d), padded(attention.e))
    if attention.operand is DType.FLOAT32:
        keys = 64 if head <= NARROW_HEAD and rows == SMALLEST_DOT else 32
        return AttentionTile(rows, keys, 4, 2, "bf16x6")
    if head > WIDE_HEAD:
        return AttentionTile(rows, 32, 4, 3)
    if rows > SMALLEST_DOT:
        return AttentionTile(rows, 64, 4, 3)
    return AttentionTile(rows, 64, 2, 4) if head <= NARROW_HEAD else AttentionTile(rows, 128, 4, 3)


def _split(
    attention: Attention,
    rows: int,
    together: int,
    arches: tuple[int, int],
    gpu: Gpu,
    updated: Container[str],
    *,
    is_always_few: bool,
) -> Iterator[Variant]:
    """The variant whose keys are split, while its tiles keep less than half of the GPU busy."""
    tile, programs = _parts_tile(attention, rows)
    programs *= gpu.multiprocessors
    grouped = over_grouped_heads(attention, together)[0]
    split = replace(tile, heads=together, most_programs=programs)
    early = _first_keys_tile(attention, rows, updated) if arches[0] >= FIRST_ARCH else None
    if early is not None:
        early = replace(early, heads=together, most_programs=gpu.multiprocessors)
        found = (_in_cluster(grouped, early, gpu), early)
        fitting = (one for one in found if one and _most_steps(grouped, one) <= MOST_FIRST_STEPS)
        split = next(fitting, split)
    tiles = row_tiles(grouped, split)
    fewest, most = bounds(tiles)
    limit = split.most_programs // 2
    if not is_always_few:
        limit = min(limit, MOST_DYNAMIC_TILES * int(fewest))
    if fewest > limit or bounds(key_splits(grouped, split))[1] == 1:
        return
    yield Variant(split, *arches, tiles, None if is_always_few and most <= limit else limit)


def _in_cluster(attention: Attention, tile: AttentionTile, gpu: Gpu) -> AttentionTile | None:
    """The tile for clusters, whose programs have all keys in one step if they can.

    To add parts through memory takes three ways there and back, while products request weights from
    it. All clusters run at once. None where tiles are many, or dynamic, or parts are long.
    """
    tiles = row_tiles(attention, tile).constant
    keys = int(min(bounds(attention.j.extent)[1], MOST_CLUSTER_KEYS))
    if not tiles:
        return None
    most = ceil(keys / FEWEST_KEYS)
    sizes = [size for size, at_once in gpu.clusters if size <= most and tiles <= at_once]
    if not sizes or max(sizes) * part_bytes(attention, tile) > MOST_SENT:
        return None
    size = max(sizes)
    block = min(max(power_of_two(ceil(keys / size)), FEWEST_KEYS), 2 * tile.j)
    warps = tile.num_warps * max(1, block // tile.j)
    return replace(tile, j=block, num_warps=warps, cluster_size=size)


def _most_steps(attention: Attention, tile: AttentionTile) -> float:
    """The most blocks of keys of one program."""
    steps = ceil_div(ceil_div(attention.j.extent, tile.j), key_splits(attention, tile))
    return bounds(steps)[1]


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
    for keys, warps, stages in FIRST_OTHERS if tile.keys_first else OTHERS:
        yield replace(tile, j=keys, num_warps=warps, num_stages=stages)
