"""Attention tiles by architecture, head dimension and number of queries (measured on an H200)."""

from aotpack.ir.dtypes import DType
from aotpack.ir.facts import bounds, typical
from aotpack.ir.nodes import Attention
from aotpack.ir.schedule import AttentionTile, Variant

WIDE_HEAD = 64  # elements; beyond, registers are the limit
MANY_QUERIES = 64 * 1024  # over all heads; then larger tiles keep all multiprocessors busy


def attention_variants(anchor: Attention) -> tuple[Variant, ...]:
    """Tiles that neither spill nor exceed the shared memory of their architectures."""
    wide = max(bounds(anchor.d.extent)[1], bounds(anchor.e.extent)[1]) > WIDE_HEAD
    length = anchor.i.extent
    if anchor.operand is DType.FLOAT32:
        old = AttentionTile(32, 32, 4, 1, "bf16x6")
        new = AttentionTile(32, 64 if not wide else 32, 4, 2, "tf32x3")
        return tuple(
            Variant(tile, low, high, length, None)
            for tile, low, high in ((old, 0, 89), (new, 90, 109), (old, 110, 10_000))
        )
    mma = AttentionTile(128, 32, 8, 3) if wide else AttentionTile(64, 32, 4, 3)
    hopper = [Variant(AttentionTile(64, 64, 4, 3), 90, 109, length, None)]
    queries = anchor.batch.extent * anchor.head.extent * length
    if (
        not wide
        and not anchor.causal
        and bounds(queries)[1] > MANY_QUERIES
        and typical(length) >= 128
    ):
        hopper.insert(0, Variant(AttentionTile(64, 64, 4, 3), 90, 109, queries, MANY_QUERIES))
        hopper[-1] = Variant(AttentionTile(128, 64, 8, 3), 90, 109, queries, None)
    return (
        Variant(mma, 0, 89, length, None),
        *hopper,
        Variant(mma, 110, 10_000, length, None),
    )
