"""Tiles of one row and codes: which programs run at once, and where their codes are."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.one_row import DECODED
from aotpack.ir.kernels.tiles import MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply
from aotpack.schedule.tiles.few_rows import few_rows_variants
from tests.schedule.programs import BF16, F32, Writer, load

NONE = frozenset[str]()


def codes(
    n: int, k: int, *, sides: int = 1, operand: DType = BF16, kind: str = "cast"
) -> tuple[Variant, ...]:
    """The variants of one row and codes of 8 bits."""
    w = Writer(())
    x = w.input("x", 1, k, dtype=operand)
    rows, columns, depth = Axis("m", Int.of(1)), Axis("n", Int.of(n)), Axis("k", Int.of(k))
    products, strides = [], {"x": (Int.of(k), Int.of(1))}
    for side in range(sides):
        weight = w.weight(f"w{side}", n, k, dtype=DType.INT8)
        strides[f"w{side}"] = (Int.of(k), Int.of(1))
        right = Apply(kind, (load(weight, columns, depth),), operand)
        left = load(x, rows, depth)
        products.append(Matmul(f"y{side}", (), rows, columns, depth, left, right, operand))
    return few_rows_variants(tuple(products), w.program(), strides, NONE)


@pytest.mark.parametrize(
    ("n", "k", "sides", "columns", "warps"),
    [
        (3072, 2048, 1, 16, 4),
        (2048, 2048, 1, 16, 4),
        (8192, 2048, 2, 16, 4),
        (2048, 8192, 1, 16, 8),
        (128256, 2048, 1, 32, 4),
        (1024, 12288, 1, 8, 8),
    ],
)
def test_one_row_of_codes_has_a_tile_of_the_matrix_unit_of_hopper(
    n: int, k: int, sides: int, columns: int, warps: int
) -> None:
    found = codes(n, k, sides=sides)
    assert [(one.arch_low, one.arch_high) for one in found[:2]] == [(1, 89), (90, 99)]
    tile = found[1].tile
    assert isinstance(tile, MatmulTile) and tile.in_matrix_unit
    assert (tile.n, tile.num_warps) == (columns, warps)


@pytest.mark.parametrize(
    ("n", "k", "sides", "in_shared", "programs", "split"),
    [
        (4096, 2048, 1, 0, 0, 0),  # 128 tiles: all run at once
        (3072, 2048, 1, 0, 0, 0),  # tiles of 32 KiB
        (2048, 8192, 1, 8, 0, 97),  # eight warps, of 16 steps
        (2048, 4096, 1, 8, 0, 81),  # of 8: there are no more
        (1024, 12288, 1, 16, 0, 113),
        (8192, 2048, 2, 3, 0, 4 * 33),  # all four that registers hold
        (256 * 32, 2048, 1, 3, 0, 2 * 33),
        (792 * 32, 2048, 1, 3, 0, 4 * 33),
        (793 * 32, 2048, 1, 8, 265, 3 * 73),  # three tiles each
        (128256, 2048, 1, 8, 365, 3 * 73),  # eleven each
    ],
)
def test_programs_of_one_row_of_codes_run_at_once(
    n: int, k: int, sides: int, in_shared: int, programs: int, split: int
) -> None:
    tile = codes(n, k, sides=sides)[1].tile
    assert isinstance(tile, MatmulTile)
    assert (tile.in_shared, tile.most_programs) == (in_shared, programs)
    assert tile.shared_split == 1024 * split


@pytest.mark.parametrize(
    ("n", "k", "sides", "in_shared", "programs", "split"),
    [
        (2048, 8192, 1, 12, 0, 113),  # their row takes half of that of integers
        (8192, 2048, 2, 3, 0, 4 * 29),
        (128256, 2048, 1, 8, 365, 3 * 69),
    ],
)
def test_so_do_those_of_8_bit_floats(
    n: int, k: int, sides: int, in_shared: int, programs: int, split: int
) -> None:
    tile = codes(n, k, sides=sides, kind=DECODED)[2].tile  # the second one is Ada's
    assert isinstance(tile, MatmulTile) and tile.in_matrix_unit
    assert (tile.in_shared, tile.most_programs) == (in_shared, programs)
    assert tile.shared_split == 1024 * split


@pytest.mark.parametrize(
    ("n", "k", "programs"),
    [(2048, 8192, 132), (2112, 8192, 0), (1024, 8192, 132), (4096, 8192, 0), (3072, 2048, 0)],
)
def test_long_rows_have_a_program_for_each_multiprocessor(n: int, k: int, programs: int) -> None:
    tile = codes(n, k)[1].tile
    assert isinstance(tile, MatmulTile) and tile.least_programs == programs


@pytest.mark.parametrize(
    ("n", "k", "operand"),
    [(3068, 2048, BF16), (3072, 2040, BF16), (3072, 2048, F32), (3072, 14336, BF16)],
)
def test_other_codes_have_none(n: int, k: int, operand: DType) -> None:
    (one,) = codes(n, k, operand=operand)
    assert isinstance(one.tile, MatmulTile) and not one.tile.in_matrix_unit
