"""The other tiles of a launch: of one kind, each once, the same in every build."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.tiles import (
    MAX_ARCH,
    PointwiseTile,
    ReductionTile,
    Tile,
    Tile2D,
    Variant,
)
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule.tiles.candidates import MOST_OTHERS, with_others
from tests.schedule.programs import Writer, apply, load, schedule_of

TILES = (
    PointwiseTile(256, 4),
    PointwiseTile(1024, 4),
    Tile2D(Int.of(96), 64, 64, num_warps=8),
    *(ReductionTile(x, r, True, warps) for x, r, warps in ((1, 16, 1), (8, 64, 4), (1, 16384, 16))),
    *(ReductionTile(1, 2048, False, 4, unroll=4, group=g) for g in (1, 8)),
    ReductionTile(64, 32, False, 4, unroll=4),
    ReductionTile(1, 8192, False, 32, group=8),
)


def variant(tile: Tile) -> Variant:
    return Variant(tile, 1, MAX_ARCH, Int.of(1), None)


@pytest.mark.row("C:L5")
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_candidates_are_neighbours_of_their_tile(tile: Tile) -> None:
    tiles = with_others(variant(tile)).tiles
    assert tiles[0] == tile and tiles == with_others(variant(tile)).tiles
    assert 2 <= len(tiles) == len(set(tiles)) <= 1 + MOST_OTHERS
    for other in tiles[1:]:
        assert type(other) is type(tile)
        assert 1 <= other.num_warps <= 32
        if isinstance(other, ReductionTile) and isinstance(tile, ReductionTile):
            assert (other.persistent, other.group) == (tile.persistent, tile.group)
            assert other.r == tile.r or not tile.persistent


def test_given_candidates_stay() -> None:
    given = Variant(TILES[0], 1, 2, Int.of(1), None, others=(TILES[1],))
    assert with_others(given) is given


def test_a_candidate_of_another_kind_is_refused() -> None:
    w = Writer()
    x = w.input("x", 512)
    program = w.program(w.pointwise("y", (512,), lambda i: apply("exp", load(x, i))))
    schedule = schedule_of(program)
    verify_schedule(schedule)
    (kernel,) = schedule.kernels
    odd = ReductionTile(1, 16, True, 1)
    mixed = tuple(
        Variant(v.tile, v.arch_low, v.arch_high, v.measure, v.at_most, others=(odd,))
        for v in kernel.variants
    )
    with pytest.raises(InvalidSchedule, match="are of different kinds"):
        verify_schedule(replace(schedule, kernels=(replace(kernel, variants=mixed),)))
