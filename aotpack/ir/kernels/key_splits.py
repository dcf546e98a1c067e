"""Attention of few queries over many keys: how many programs share the keys of a tile.

parts[tile, split] = maximum, sum and weighted values over the split's keys;
the last program of a tile to end adds its parts, or the first of a cluster
"""

from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div, maximum, minimum

SMALLEST_DOT = 16  # elements along any side of a product
FEWEST_KEYS = 64  # of a program that shares keys
MOST_ADDED = 65_536  # elements of all parts of a tile, which one program adds
CLUSTER_SIZES = (2, 4, 8)  # that every GPU with clusters takes
PART_WORD = 4  # bytes of a number that programs of a cluster send
MOST_SENT = 40 * 2**10  # bytes that they send to one of them; 48 KiB can be declared in all


def row_tiles(attention: Attention, tile: AttentionTile) -> Int:
    """The number of tiles of rows; ``attention`` has grouped heads."""
    blocks = ceil_div(attention.i.extent, tile.i)
    return blocks * attention.batch.extent * attention.head.extent


def key_splits(attention: Attention, tile: AttentionTile) -> Int:
    """The number of programs that share the keys of a tile."""
    if not tile.most_programs:
        return Int.of(1)
    if tile.cluster_size > 1:
        return Int.of(tile.cluster_size)
    shares = ceil_div(attention.j.extent, max(tile.j, FEWEST_KEYS))
    most = max(1, MOST_ADDED // (part_rows(attention, tile) * padded(attention.e)))
    programs = Int.of(tile.most_programs) // row_tiles(attention, tile)
    return maximum(1, minimum(minimum(programs, shares), most))


def part_rows(attention: Attention, tile: AttentionTile) -> int:
    """The rows of a part in memory: those of a tile, but no more than there can be."""
    most = bounds(attention.i.extent)[1]
    return tile.i if most >= tile.i else power_of_two(int(most))


def part_elements(attention: Attention, tile: AttentionTile) -> int:
    """The elements of a part: values, a maximum and a sum for each row."""
    return part_rows(attention, tile) * (padded(attention.e) + 2)


def part_bytes(attention: Attention, tile: AttentionTile) -> int:
    """The bytes of a part that a program of a cluster sends."""
    return PART_WORD * part_elements(attention, tile)


def padded(axis: Axis) -> int:
    """The block that covers a head dimension."""
    return max(SMALLEST_DOT, power_of_two(int(axis.extent)))


def power_of_two(number: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (number - 1).bit_length()
