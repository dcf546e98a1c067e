"""Tiles of attention of few queries: grouped heads, and as many parts as keep a GPU busy."""

from dataclasses import replace

import pytest

from aotpack.devices import H200, RTX_PRO_6000
from aotpack.ir.kernels.grouped_heads import heads_together, over_grouped_heads
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.key_splits import key_splits
from aotpack.ir.kernels.tiles import AttentionTile, Variant
from aotpack.ir.operations import Attention
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.ir.verify.tiles import InvalidSchedule
from aotpack.schedule import schedule
from aotpack.schedule.tiles.attention import attention_variants
from tests.schedule.programs import BF16, Writer, load, lowered

S = Var("s", 1, 2048)
BATCH = Var("b", 1, 64)


def program(
    batch: Int | int, queries: Int | int, keys: Int | int, *, shared: int = 4, causal: bool = False
) -> Program:
    sizes = {leaf for n in (batch, queries, keys) for leaf in Int.of(n).leaves()}
    w = Writer(tuple(leaf for leaf in sizes if isinstance(leaf, Var)))
    q = w.input("q", batch, 32, queries, 64, dtype=BF16)
    k, v = (w.input(name, batch, 32 // shared, keys, 64, dtype=BF16) for name in "kv")
    extents = (batch, 32, queries, keys, 64, 64)
    b, h, i, j, d, e = (Axis(f"a{k}", Int.of(extent)) for k, extent in enumerate(extents))
    head = Int.of(h) // shared
    slots = (load(q, b, h, i, d), load(k, b, head, j, d), load(v, b, head, j, e))
    y = w.buffer("y", (batch, 32, queries, 64), BF16)
    w.operations.append(Attention("y", b, h, i, j, d, e, *slots, 0.5, causal, None, None, BF16))
    return w.program(y)


def attention(made: Program) -> Attention:
    (found,) = made.operations
    assert isinstance(found, Attention)
    return found


def hopper(made: Program) -> list[Variant]:
    return [v for v in attention_variants(attention(made), H200) if v.takes(90)]


def tile_of(variant: Variant) -> AttentionTile:
    assert isinstance(variant.tile, AttentionTile)
    return variant.tile


@pytest.mark.parametrize(("shared", "rows"), [(1, 16), (4, 16), (32, 32)])
def test_heads_with_the_same_keys_are_rows(shared: int, rows: int) -> None:
    made = program(1, 1, 40_960, shared=shared)
    assert heads_together(attention(made)) == shared
    (one,) = hopper(made)
    tile = tile_of(one)
    assert (tile.heads, tile.i) == (shared, rows)
    splits = key_splits(over_grouped_heads(attention(made), shared)[0], tile).constant
    assert splits is not None
    assert 132 <= splits * 32 // shared <= 264 or splits * rows * 64 == 65_536  # to be added


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (program(1, 1, 4096), [True]),
        (program(64, 1, 4096), [False]),  # as many tiles as a GPU needs
        (program(1, 1, 64), [False]),
        (program(1, 1, 65), [True]),
        (program(BATCH, 1, S), [True, False]),
        (program(1, S, S), [True, False, False]),
        (program(1, 500, 500), [False]),
        (program(1, 1, 4096, causal=True), [False]),  # it sees one key
    ],
)
def test_keys_are_in_parts_where_tiles_are_few(made: Program, parts: list[bool]) -> None:
    variants = hopper(made)
    assert [tile_of(one).most_programs > 0 for one in variants] == parts
    assert [one.at_most is None for one in variants] == [False] * (len(parts) - 1) + [True]
    last = attention_variants(attention(made), RTX_PRO_6000)[-1]
    assert last.at_most is None


def scheduled(made: Program, *, deterministic: bool = False) -> Schedule:
    return schedule(lowered(made), deterministic=deterministic).schedule


def test_rows_that_have_equal_bits_in_any_batch_have_equally_many_parts() -> None:
    def parts(batch: Int | int) -> bool:
        (kernel,) = scheduled(program(batch, 1, 4096), deterministic=True).kernels
        return any(
            isinstance(t, AttentionTile) and t.most_programs
            for v in kernel.variants
            for t in v.tiles
        )

    assert parts(1) and not parts(Var("b", 1, 4))


@pytest.mark.parametrize("field", ["exchange", "counters"])
def test_too_little_memory_is_refused(field: str) -> None:
    made = scheduled(program(1, 1, 4096))
    verify_schedule(made)
    (kernel,) = made.kernels
    (buffer,) = getattr(kernel, field)
    short = replace(kernel, **{field: (replace(buffer, shape=(Int.of(0),)),)})
    with pytest.raises(InvalidSchedule, match="cannot share its sums"):
        verify_schedule(replace(made, kernels=(short,)))


def test_too_many_tiles_are_refused() -> None:
    made = scheduled(program(BATCH, 1, 4096))
    (kernel,) = made.kernels
    variants = tuple(
        replace(one, at_most=10_000)
        if isinstance(one.tile, AttentionTile) and one.tile.most_programs
        else one
        for one in kernel.variants
    )
    with pytest.raises(InvalidSchedule, match="cannot share its sums"):
        verify_schedule(replace(made, kernels=(replace(kernel, variants=variants),)))
