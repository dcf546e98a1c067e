"""The memory that programs need to share the sums of a product or the keys of attention."""

from aotpack.ir.kernels.grouped_heads import with_grouped_heads
from aotpack.ir.kernels.kernel import Kernel, most_tiles
from aotpack.ir.kernels.key_splits import part_elements
from aotpack.ir.kernels.tiles import AttentionTile, MatmulTile, Tile, Variant
from aotpack.ir.operations import Matmul


def needed_parts(kernel: Kernel, variant: Variant, tile: Tile) -> tuple[int, int]:
    """The elements of all parts, and the counters; (0, 0) if a tile is one program's.

    Programs that share keys are as many as a tile allows, tiles at most half of them.
    """
    template_op = kernel.template_op
    if isinstance(tile, MatmulTile) and isinstance(template_op, Matmul) and tile.splits > 1:
        most = most_tiles(template_op, variant, tile)
        return most * tile.splits * tile.m * tile.n, most
    if isinstance(tile, AttentionTile) and tile.most_programs and tile.cluster_size == 1:
        attention = with_grouped_heads(kernel, tile.heads)[1]
        return tile.most_programs * part_elements(attention, tile), tile.most_programs
    return 0, 0
