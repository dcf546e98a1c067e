"""Exchange memory of products whose sums are split between programs.

y[m, n] = sum over k of a[m, k] * b[k, n]    ->    y_parts[tile, split, m, n]; y_arrived[tile]
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, most_tiles
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.names import free_name
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int


def with_partial_sums(kernel: Kernel, program: Program) -> Kernel:
    """A product with memory for the parts of its sums, and counters of the parts of each tile.

    They are as large as the largest variant needs; the same object if none is split.
    """
    product = kernel.template_op
    if not isinstance(product, Matmul):
        return kernel
    elements = tiles = 0
    for variant in kernel.variants:
        for tile in variant.tiles:
            if isinstance(tile, MatmulTile) and tile.splits > 1:
                most = most_tiles(product, variant, tile)
                tiles = max(tiles, most)
                elements = max(elements, most * tile.splits * tile.m * tile.n)
    if not tiles:
        return kernel
    wide, known, name = product.operand.accumulator, program.buffers, product.target
    parts = Buffer(free_name(f"{name}_parts", known), wide, (Int.of(elements),))
    arrived = Buffer(free_name(f"{name}_arrived", known), DType.INT32, (Int.of(tiles),))
    return replace(kernel, exchange=(parts,), counters=(arrived,))
