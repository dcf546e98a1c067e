"""Tiles of few rows: which products stream their weights, and how many of them are in flight."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.schedule.tiles.few_rows import MOST_ROWS, few_rows_variants
from tests.schedule.programs import BF16, F16, F32, Size, Writer, load

B = Var("b", 1, 512)
NONE = frozenset[str]()


def variants(
    m: Size,
    n: int,
    k: int,
    operand: DType = BF16,
    changed: frozenset[str] = NONE,
    *,
    across: bool = False,
    reads: tuple[str, ...] = (),
) -> tuple[Variant, ...]:
    """Those of ``x @ w.T``, or of ``x @ w``."""
    w = Writer((B,))
    x = w.input("x", m, k, dtype=operand)
    sides = (k, n) if across else (n, k)
    weight = w.weight("w", *sides, dtype=operand)
    rows, columns, depth = Axis("m", Int.of(m)), Axis("n", Int.of(n)), Axis("k", Int.of(k))
    right = load(weight, depth, columns) if across else load(weight, columns, depth)
    template_op = Matmul("y", (), rows, columns, depth, load(x, rows, depth), right, operand)
    strides = {"x": (Int.of(k), Int.of(1)), "w": (Int.of(sides[1]), Int.of(1))}
    return few_rows_variants((template_op,), w.program(), strides, changed, reads)


@pytest.mark.parametrize("operand", [BF16, F16, F32], ids=str)
@pytest.mark.parametrize("k", [768, 2048, 4096, 8192, 14336, 28672, 1000])
def test_a_thread_reads_vectors_and_keeps_its_registers(k: int, operand: DType) -> None:
    for variant in variants(B, 4096, k, operand):
        for tile in (one for one in variant.tiles if isinstance(one, MatmulTile) and one.at_once):
            threads = 32 * tile.num_warps
            in_thread = tile.n * tile.k // threads
            assert tile.n * tile.k % threads == 0 and in_thread * operand.itemsize >= 16
            assert tile.m * in_thread <= 64
            assert tile.at_once * in_thread * operand.itemsize <= 28 * 16


def test_each_number_of_rows_has_a_tile_and_many_rows_have_none() -> None:
    limits = [variant.at_most for variant in variants(B, 4096, 4096, F32)]
    assert limits == [1, 2, 4, 8] and limits[-1] == MOST_ROWS[F32]
    assert variants(64, 4096, 4096) == ()


def test_rows_that_are_few_for_sure_need_no_other_tile() -> None:
    (one,) = variants(1, 4096, 4096)
    assert one.at_most is None
    (few,) = variants(16, 4096, 4096)
    assert few.at_most is None and few.tile == few.tiles[0] and few.arch_low == 90


@pytest.mark.parametrize(
    ("k", "operand", "tile"),
    [
        (2048, BF16, (8, 256)),
        (3072, BF16, (2, 1024)),
        (4096, BF16, (2, 1024)),
        (2048, F32, (4, 128)),
        (8192, BF16, (4, 256)),
        (14336, BF16, (2, 1024)),
    ],
)
def test_columns_of_one_row_by_their_length(k: int, operand: DType, tile: tuple[int, int]) -> None:
    (one,) = variants(1, 4096, k, operand)
    assert isinstance(one.tile, MatmulTile) and (one.tile.n, one.tile.k) == tile


def test_few_columns_share_their_sums() -> None:
    sides = ((2048, 8192), (2048, 2048), (16384, 2048))
    tiles = [variants(16, n, k)[0].tile for n, k in sides]
    assert [tile.splits for tile in tiles if isinstance(tile, MatmulTile)] == [4, 1, 1]
    assert variants(16, 64, 256) == ()  # nor does memory bound so small a product


def test_weights_that_a_launch_writes_are_not_first() -> None:
    for changed, first in ((NONE, True), (frozenset({"w"}), False)):
        (variant,) = variants(1, 256, 256, changed=changed)
        assert isinstance(variant.tile, MatmulTile) and variant.tile.weights_first is first


def test_what_a_kernel_reads_besides_is_not_written_either() -> None:
    """Its scales are requested with the weights."""
    (older,) = variants(1, 256, 256, changed=frozenset({"s"}), reads=("s",))
    assert isinstance(older.tile, MatmulTile) and not older.tile.weights_first


def test_weights_with_columns_side_by_side_take_a_matrix_unit() -> None:
    (one,) = variants(1, 4096, 4096, across=True)
    assert isinstance(one.tile, MatmulTile) and one.tile.swapped and one.at_most is None
    assert variants(1, 4096, 4096, F32, across=True) == ()
