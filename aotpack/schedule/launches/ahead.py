"""Weights that are requested ahead: memory is busy while a product waits for small launches.

    rotary; attention; y = x @ wo      ->      programs of y bring 16 MiB of wg to L2 as they wait
    norm;  z = y @ wg

A product with few weights has requested them long before the launches in front of it end. While it
waits, its programs bring the first part of what the next product streams into L2.
"""

from dataclasses import replace
from itertools import pairwise

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.values import Load, walk
from aotpack.schedule.layout import typical_bytes

LINE = 128  # bytes of memory that a thread requests
MOST_OWN = 16 * 2**20  # bytes of weights of a product that waits for other than memory
LEAST_NEXT = 24 * 2**20  # bytes of weights of the product behind it
MOST_BETWEEN = 2  # launches between the two


def request_ahead(program: Program, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Let products with few weights request some of those that a later product streams."""
    changed = list(kernels)
    places = [place for place, kernel in enumerate(kernels) if _streams(kernel)]
    for place, later in pairwise(places):
        own, (ahead, *_) = (_weights(kernels[one]) for one in (place, later))
        few = sum(typical_bytes(program.buffers[name]) for name in own) <= MOST_OWN
        many = typical_bytes(program.buffers[ahead])
        is_long = many >= LEAST_NEXT and _requested(kernels[place]) <= many
        if few and is_long and later - place <= MOST_BETWEEN + 1:
            changed[place] = replace(kernels[place], ahead=ahead)
    return tuple(changed)


def _requested(kernel: Kernel) -> int:
    """The bytes that the programs of a product request, a line of memory for each thread."""
    (product, *_) = kernel.products
    tiles = [tile for v in kernel.variants for tile in v.tiles if isinstance(tile, MatmulTile)]
    programs = max(-(-typical(product.n.extent) // tile.n) * tile.num_warps for tile in tiles)
    return programs * WARP * LINE


def _streams(kernel: Kernel) -> bool:
    """True for a product that requests its weights before it waits, in all its tiles."""
    tiles = [variant.tile for variant in kernel.variants if variant.arch_high > 0]
    return bool(tiles) and all(isinstance(t, MatmulTile) and t.weights_first for t in tiles)


def _weights(kernel: Kernel) -> list[str]:
    """The buffers of a kernel's right factors."""
    inner = walk([product.rhs for product in kernel.products])
    return list(dict.fromkeys(value.buffer for value in inner if isinstance(value, Load)))
