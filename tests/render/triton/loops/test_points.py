"""Blocks of points: what a block has in common, and tiles of lines."""

import pytest

from aotpack.ir.kernels.kernel import unflattened
from aotpack.ir.kernels.tiles import PointwiseTile, Tile2D
from aotpack.ir.symbolic.integers import Int
from aotpack.render.triton.loops.loops import LoopKernel, loop_kernel
from tests.render.triton.loops.rows import text
from tests.schedule.programs import Writer, apply, load, schedule_of

ROWS, LENGTH = 32, 2048


def scaled(tile: PointwiseTile | Tile2D) -> LoopKernel:
    """Rows by a number each."""
    w = Writer()
    x, y = w.input("x", ROWS, LENGTH), w.input("y", ROWS)
    z = w.pointwise("z", [ROWS, LENGTH], lambda i, j: apply("mul", load(x, i, j), load(y, i)))
    schedule = schedule_of(w.program(z))
    (kernel,) = schedule.kernels
    if isinstance(tile, Tile2D):
        kernel = unflattened(kernel, tile.width, tile.height)
    return loop_kernel(schedule, kernel, tile)


@pytest.mark.parametrize(("block", "is_one"), [(1024, True), (4096, False)])
def test_what_a_block_shares_is_computed_from_its_first_point(block: int, is_one: bool) -> None:
    made = scaled(PointwiseTile(block, 4))
    assert (f"(tl.program_id(0)*{block}) // 2048" in text(made)) is is_one
    assert ("x // 2048" in text(made)) is not is_one


@pytest.mark.parametrize(("rows", "masked"), [(8, False), (5, True)])
def test_lines_are_masked_unless_blocks_divide_them(rows: int, masked: bool) -> None:
    made = scaled(Tile2D(Int.of(LENGTH), rows, 128, 4, band=4))
    assert made.context.band == 4 and made.context.y is not None
    assert (made.context.y.block, made.context.y.masked) == (rows, masked)
    assert ("y_mask" in text(made)) is masked
