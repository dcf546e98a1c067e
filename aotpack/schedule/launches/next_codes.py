"""Codes of a later product, which one of a single row requests into the L2 cache for it.

    gate    request codes, wait, make the row, prefetch, multiply
    down                                                 request codes, wait, ...

A product of one row and codes (``schedule/tiles/one_row.py``) requests them when it starts. One of
a long row, or behind one, starts late: a program of a long row has a multiprocessor for itself.
Memory is idle from the time when the one before has its codes, and so its row, until then. Measured
on an H200 (decision 068); with codes that are 8-bit floats, steps took 2 % longer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.one_row import FLOAT8, numbers_of, whole_codes
from aotpack.ir.kernels.tiles import MatmulTile, Tile, Variant
from aotpack.ir.program import Program
from aotpack.schedule.tiles.one_row import WARPS

LARGE = 8 * 1024 * 1024  # bytes of codes of a product that starts late
FOR_NEXT = 8 * 1024 * 1024  # bytes for the next launch
FOR_LATER = 4 * 1024 * 1024  # for one after launches that have requests of their own
ALIGNMENT = 16  # bytes


def request_next_codes(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Kernel, ...]:
    """Let products of one row and many codes request those of the next such product into L2.

    One of both has a long row.
    """
    weights = frozenset(program.weights)
    return tuple(
        _requesting(kernel, kernels[place + 1 :], strides, weights)
        for place, kernel in enumerate(kernels)
    )


def _requesting(
    kernel: Kernel, later: Sequence[Kernel], strides: Strides, weights: frozenset[str]
) -> Kernel:
    """A large product that requests codes of the next one, if that is in the matrix unit too."""
    if not _is_large(kernel, strides):
        return kernel
    products = (one for one in later if one.products and not _is_small(one, strides))
    found = next(products, None)
    if found is None or not _is_large(found, strides) or not (_is_long(kernel) or _is_long(found)):
        return kernel
    codes = whole_codes(found.products[0], strides)
    if codes is None or codes.buffer not in weights:
        return kernel
    most = min(codes.length, FOR_NEXT if found is later[0] else FOR_LATER)
    variants = tuple(_fetching(kernel, one, codes.buffer, most) for one in kernel.variants)
    return replace(kernel, variants=variants)


def _fetching(kernel: Kernel, variant: Variant, buffer: str, most: int) -> Variant:
    """A variant each of whose programs requests its share of a buffer's first bytes."""
    tile = variant.tile
    if not _in_unit(tile):
        return variant
    programs = tile.most_programs or int(kernel.products[0].n.extent) // tile.n
    share = most // programs // ALIGNMENT * ALIGNMENT
    return replace(variant, tile=replace(tile, next_codes=buffer, next_bytes=share))


def _is_large(kernel: Kernel, strides: Strides) -> bool:
    """True for products in the matrix unit with many integer codes, one after another."""
    if not any(_in_unit(one.tile) for one in kernel.variants):
        return False
    return FLOAT8 not in numbers_of(kernel.products[0]) and _bytes(kernel, strides) >= LARGE


def _is_long(kernel: Kernel) -> bool:
    """True for products of a long row."""
    tiles = [one.tile for one in kernel.variants]
    return any(_in_unit(tile) and tile.num_warps > WARPS for tile in tiles)


def _in_unit(tile: Tile) -> TypeGuard[MatmulTile]:
    return isinstance(tile, MatmulTile) and tile.in_matrix_unit


def _is_small(kernel: Kernel, strides: Strides) -> bool:
    return 0 < _bytes(kernel, strides) < LARGE


def _bytes(kernel: Kernel, strides: Strides) -> int:
    """The bytes of its products' codes; 0 if they are not one after another."""
    found = [whole_codes(product, strides) for product in kernel.products]
    return sum(one.length for one in found if one) if all(found) else 0
