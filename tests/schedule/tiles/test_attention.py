"""Tiles of attention: one for every architecture, within its shared memory for any head."""

import pytest

from aotpack.devices import H200
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.schedule.tiles.attention import attention_variants
from tests.schedule.programs import BF16, F32, Writer, load

ARCHES = (80, 86, 89, 90, 100, 103, 120)
S = Var("s", 1, 2048)


def attention(head: int, operand: DType) -> Attention:
    w = Writer((S,))
    q = w.input("q", 2, 4, S, head, dtype=operand)
    extents = (2, 4, S, S, head, head)
    b, h, i, j, d, e = (Axis(f"a{k}", Int.of(extent)) for k, extent in enumerate(extents))
    slots = (load(q, b, h, i, d), load(q, b, h, j, d), load(q, b, h, j, e))
    return Attention("y", b, h, i, j, d, e, *slots, 0.5, False, None, None, operand)


def fixed(batch: int, heads: int, keys: int, head: int) -> Attention:
    w = Writer(())
    q = w.input("q", batch, heads, keys, head, dtype=BF16)
    extents = (batch, heads, keys, keys, head, head)
    b, h, i, j, d, e = (Axis(f"a{k}", Int.of(extent)) for k, extent in enumerate(extents))
    slots = (load(q, b, h, i, d), load(q, b, h, j, d), load(q, b, h, j, e))
    return Attention("y", b, h, i, j, d, e, *slots, 0.5, False, None, None, BF16)


@pytest.mark.parametrize("operand", [F32, BF16], ids=str)
@pytest.mark.parametrize("head", [16, 40, 64, 128, 256, 512])
def test_every_architecture_has_a_tile_that_fits(head: int, operand: DType) -> None:
    variants = attention_variants(attention(head, operand), H200)
    width = 1 << (head - 1).bit_length()
    for arch in ARCHES:
        suited = [v for v in variants if v.takes(arch)]
        assert suited and suited[-1].at_most is None
        for variant in suited:
            tile = variant.tile
            assert isinstance(tile, AttentionTile) and min(tile.i, tile.j) >= 16
            elements = tile.i * width + tile.num_stages * tile.j * 2 * width
            assert elements * operand.itemsize <= (232_448 if 90 <= arch < 110 else 101_376)


def test_long_heads_take_less_at_a_time() -> None:
    def keys(head: int) -> int:
        (tile, *_) = (
            v.tile for v in attention_variants(attention(head, F32), H200) if v.arch_high >= 110
        )
        assert isinstance(tile, AttentionTile)
        return tile.i * tile.j * tile.num_stages

    assert keys(512) < keys(64)


@pytest.mark.parametrize(
    ("head", "keys", "is_described"), [(128, 2048, 1), (128, 512, 0), (64, 4096, 0)]
)
def test_long_heads_of_many_keys_come_through_descriptors(
    head: int, keys: int, is_described: bool
) -> None:
    o = fixed(2, 4, keys, head)
    described = {
        arch: any(
            isinstance(v.tile, AttentionTile) and v.tile.descriptors
            for v in attention_variants(o, H200)
            if v.takes(arch)
        )
        for arch in ARCHES
    }
    assert described == {arch: bool(is_described) and 90 <= arch < 110 for arch in ARCHES}


@pytest.mark.parametrize(
    ("keys", "sides"), [(197, (64, 32)), (256, (64, 32)), (257, (128, 64)), (1024, (128, 64))]
)
def test_many_rows_of_few_keys_take_small_tiles(keys: int, sides: tuple[int, int]) -> None:
    last = [v.tile for v in attention_variants(fixed(64, 12, keys, 64), H200) if v.takes(90)][-1]
    assert isinstance(last, AttentionTile) and (last.i, last.j) == sides
