"""Tiles of products: a closed list for every architecture and number of rows, in shared memory."""

import pytest

from aotpack.devices import GPUS, H200
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.schedule.tiles.matmul import matmul_variants
from tests.schedule.programs import BF16, F16, F32, Size, Writer, load

ARCHES = (80, 86, 89, 90, 100, 103, 120)
B = Var("b", 1, 8192)


def product(
    m: Size, n: int, k: int, operand: DType, given: DType | None = None, added: int = 0
) -> tuple[Variant, ...]:
    """The variants of ``x @ w.T``; ``given`` is the type of x in memory, if another."""
    w = Writer((B,))
    x, weight = w.input("x", m, k, dtype=given or operand), w.weight("w", n, k, dtype=operand)
    rows, columns, depth = Axis("m", Int.of(m)), Axis("n", Int.of(n)), Axis("k", Int.of(k))
    factors = load(x, rows, depth), load(weight, columns, depth)
    template_op = Matmul("y", (), rows, columns, depth, *factors, operand)
    strides = {"x": (Int.of(k), Int.of(1)), "w": (Int.of(k), Int.of(1))}
    return matmul_variants(template_op, w.program(), strides, H200, added=added)


def chosen(variants: tuple[Variant, ...], arch: int, rows: int) -> MatmulTile:
    """What a launch takes: the first that admits its measure."""
    suited = [v for v in variants if v.takes(arch)]
    assert suited[-1].at_most is None
    measures = ((v, v.measure.evaluate({"b": rows})) for v in suited)
    tile = next(v.tile for v, n in measures if v.at_most is None or n <= v.at_most)
    assert isinstance(tile, MatmulTile)
    return tile


@pytest.mark.row("S:G4", "S:N6", "C:H9")
@pytest.mark.parametrize("operand", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("arch", ARCHES)
def test_every_size_has_a_tile_that_fits(arch: int, operand: DType) -> None:
    variants = product(B, 768, 768, operand)
    for rows in (1, 16, 17, 500, 8192):
        tile = chosen(variants, arch, rows)
        assert min(tile.m, tile.n, tile.k) >= 16
        stages = tile.num_stages * (tile.m + tile.n) * tile.k * operand.itemsize
        assert stages <= GPUS[arch].shared


@pytest.mark.row("S:G3", "S:N6")
def test_few_rows_take_flat_tiles_and_many_rows_tall_ones() -> None:
    variants = product(B, 4096, 4096, BF16)
    few, many = chosen(variants, 90, 1), chosen(variants, 90, 8192)
    assert few.m == 16 < many.m


@pytest.mark.parametrize("added", [2, 4, 6])
def test_residuals_have_registers_beside_the_sums(added: int) -> None:
    """Of 255 registers a few hold addresses."""
    tiles = [tile for v in product(4096, 4096, 4096, BF16, added=added) for tile in v.tiles]
    assert all(t.m * t.n // (32 * t.num_warps) * (4 + added) <= 768 for t in tiles)
    assert (chosen(product(4096, 4096, 4096, BF16, added=added), 90, 4096).n == 256) == (added == 2)


def test_a_fixed_number_of_rows_needs_one_tile_for_an_architecture() -> None:
    fixed = product(128, 768, 768, BF16)
    dynamic = product(B, 768, 768, BF16)

    def count(variants: tuple[Variant, ...]) -> int:
        return sum(v.takes(90) for v in variants)

    assert count(fixed) == 1 < count(dynamic)


@pytest.mark.row("C:F24", "C:L4", "S:H16")
def test_long_sums_of_many_rows_read_their_factors_through_descriptors() -> None:
    found = product(B, 4096, 4096, BF16)
    many, few = chosen(found, 90, 8192), chosen(found, 90, 16)
    assert (
        many.descriptors and many.most_programs == GPUS[90].multiprocessors and not few.descriptors
    )
    for arch in ARCHES:
        assert chosen(found, arch, 8192).descriptors is (arch == 90)


def test_columns_that_fill_no_power_of_two_fill_a_wave_instead() -> None:
    """32 x 4 tiles of 128 x 192 are a wave; 32 x 3 of 128 x 256 are three quarters of one."""
    tile = chosen(product(4096, 768, 3072, BF16), 90, 4096)
    assert tile.n == 192 and tile.columns == (128, 64)
    partial = product(4096, 800, 3072, BF16)  # 192 divides 768, not 800
    assert len(chosen(partial, 90, 4096).columns) == 1


@pytest.mark.row("C:F24", "C:F17")
@pytest.mark.parametrize(
    ("n", "k", "operand", "given"),
    [
        (4096, 64, BF16, BF16),  # a short sum
        (4096, 4100, BF16, BF16),  # rows begin at any multiple of 8 bytes
        (4096, 4096, BF16, F32),  # elements are rounded on their way
        (4096, 4096, F32, F32),
    ],
)
def test_other_products_read_by_pointers(n: int, k: int, operand: DType, given: DType) -> None:
    found = product(B, n, k, operand, given)
    assert not any(v.tile.descriptors for v in found if isinstance(v.tile, MatmulTile))


@pytest.mark.row("C:L1")
@pytest.mark.parametrize("k", [64, 960, 4096])
@pytest.mark.parametrize("arch", ARCHES)
def test_factors_of_float32_are_in_three_parts_and_tall_tiles_take_short_steps(
    arch: int, k: int
) -> None:
    variants = product(B, 768, k, F32)
    for rows in (1, 64, 8192):
        tile = chosen(variants, arch, rows)
        assert tile.precision == "bf16x6"
        assert tile.m == 16 or tile.k <= 32


@pytest.mark.parametrize(
    ("rows", "n", "k", "sides", "splits"),
    [
        (16, 6144, 4096, (16, 64, 64), 4),
        (16, 4096, 14336, (16, 64, 64), 4),
        (16, 8192, 28672, (16, 64, 64), 2),  # one sum of so many steps breaks the law of accuracy
        (16, 32000, 4096, (16, 64, 64), 1),
        (128, 3072, 2048, (64, 64, 32), 4),
        (128, 4096, 14336, (64, 64, 32), 2),
        (512, 768, 3072, (64, 64, 32), 4),
        (4096, 4096, 4096, (64, 64, 32), 1),
    ],
)
def test_programs_share_sums_of_float32_where_multiprocessors_have_room_for_two(
    rows: int, n: int, k: int, sides: tuple[int, int, int], splits: int
) -> None:
    """What was quickest on an H200: docs/measurements/h200_products_float32.csv."""
    tile = chosen(product(rows, n, k, F32), 90, rows)
    assert (tile.m, tile.n, tile.k) == sides
    assert tile.splits == splits
