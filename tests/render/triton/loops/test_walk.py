"""Each tile has its strategy, and what all of them share: who stores, where masks are."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.render.triton.loops.look_back import LookBack
from aotpack.render.triton.loops.looped_row import LoopedRow
from aotpack.render.triton.loops.loops import walk_of
from aotpack.render.triton.loops.persistent_row import PersistentRow
from aotpack.render.triton.loops.row_pipeline import RowPipeline
from aotpack.render.triton.loops.walk import Walk, tile_axis
from tests.render.triton.loops.rows import (
    IN_LOOPS,
    IN_PIPELINE,
    IN_REGISTERS,
    LENGTH,
    shares,
    shares_on,
    text,
)


@pytest.mark.parametrize(
    ("tile", "strategy", "is_part"),
    [
        (IN_REGISTERS, PersistentRow, False),
        (replace(IN_REGISTERS, cluster_size=2), PersistentRow, True),
        (IN_LOOPS, LoopedRow, False),
        (replace(IN_LOOPS, cluster_size=2), LoopedRow, True),
        (IN_PIPELINE, RowPipeline, True),
        (replace(IN_REGISTERS, r=128, look_back=True), LookBack, False),
    ],
)
def test_a_tile_has_one_strategy(tile: ReductionTile, strategy: type[Walk], is_part: bool) -> None:
    walk = walk_of(*shares(), tile)
    assert type(walk) is strategy and walk.partition.is_part is is_part


@pytest.mark.parametrize(
    ("tile", "masked"),
    [
        (IN_REGISTERS, False),
        (replace(IN_REGISTERS, r=2048), True),
        (IN_LOOPS, False),
        (replace(IN_LOOPS, r=96), True),
    ],
)
def test_blocks_are_masked_where_they_reach_over_a_row(tile: ReductionTile, masked: bool) -> None:
    schedule, kernel = shares()
    sides = walk_of(schedule, kernel, tile).sides(kernel)
    assert [side.masked for side in sides.values()] == [False, masked]
    assert ("_mask" in text(shares_on(tile))) is masked


def test_an_axis_without_blocks_has_no_mask() -> None:
    _, kernel = shares()
    assert [tile_axis(kernel.axes[1], n).masked for n in (0, LENGTH, 96)] == [False, False, True]


def test_what_nobody_reads_is_not_stored() -> None:
    assert text(shares_on(IN_REGISTERS)).count("tl.store(") == 1
