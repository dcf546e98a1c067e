"""Memory for the parts of sums that programs share; a schedule without enough of it is refused."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.ir.verify.tiles import InvalidSchedule
from aotpack.schedule import schedule
from tests.schedule.programs import BF16, Writer, load, lowered


def product(rows: Int | int, depth: int) -> Schedule:
    sizes = (rows,) if isinstance(rows, Var) else ()
    w = Writer(sizes)
    x, weight = w.input("x", rows, depth, dtype=BF16), w.weight("w", 80, depth, dtype=BF16)
    y = w.matmul("y", rows, 80, depth, x, weight)
    z = w.pointwise("z", [rows, 80], lambda i, j: load(y, i, j))
    return schedule(lowered(w.program(z))).schedule


def split_tiles(made: Schedule) -> list[MatmulTile]:
    tiles = [t for kernel in made.kernels for variant in kernel.variants for t in variant.tiles]
    return [tile for tile in tiles if isinstance(tile, MatmulTile) and tile.splits > 1]


@pytest.mark.parametrize("rows", [24, 50, Var("b", 1, 100_000)], ids=str)
def test_a_tile_for_each_part_and_a_counter_for_each_tile(rows: Int | int) -> None:
    made = product(rows, 4096)
    assert split_tiles(made)
    (kernel,) = (one for one in made.kernels if one.exchange)
    (parts,), (counters,) = kernel.exchange, kernel.counters
    largest = max(tile.splits * tile.m * tile.n for tile in split_tiles(made))
    assert int(parts.shape[0]) >= largest and int(counters.shape[0]) >= 1
    verify_schedule(made)


def test_short_sums_need_none() -> None:
    made = product(50, 64)
    assert not split_tiles(made) and not any(kernel.exchange for kernel in made.kernels)


@pytest.mark.parametrize("field", ["exchange", "counters"])
def test_too_little_memory_is_refused(field: str) -> None:
    made = product(50, 4096)
    kernels = []
    for kernel in made.kernels:
        if kernel.exchange:
            (buffer,) = getattr(kernel, field)
            kernel = replace(kernel, **{field: (replace(buffer, shape=(Int.of(0),)),)})
        kernels.append(kernel)
    with pytest.raises(InvalidSchedule, match="cannot share its sums"):
        verify_schedule(replace(made, kernels=tuple(kernels)))
