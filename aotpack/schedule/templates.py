"""Tiles for matmul and attention, by architecture and size: measured, not guessed where possible."""

from aotpack.ir.integers import Int, product
from aotpack.ir.nodes import Attention, Matmul
from aotpack.ir.schedule import AttentionTile, MatmulTile, Variant


def matmul_variants(anchor: Matmul) -> tuple[Variant, ...]:
    """Tiles by the number of rows."""
    rows = anchor.m.extent * product(axis.extent for axis in anchor.batch)
    table: tuple[tuple[MatmulTile, int | None], ...] = (
        (MatmulTile(16, 64, 128, 8, 4, 4), 16),
        (MatmulTile(64, 64, 64, 8, 4, 4), 512),
        (MatmulTile(128, 128, 64, 8, 8, 3), None),
    )
    return tuple(Variant(tile, 0, 10_000, rows, limit) for tile, limit in table)


def attention_variants(anchor: Attention) -> tuple[Variant, ...]:
    """Tiles by the number of queries."""
    return (Variant(AttentionTile(64, 64, 4, 2), 0, 10_000, Int.of(1), None),)
