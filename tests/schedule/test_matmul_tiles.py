"""Tiles of products: a closed list for every architecture and number of rows, in shared memory."""

import pytest

from aotpack.devices import GPUS
from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis, Int, Var
from aotpack.ir.nodes import Matmul
from aotpack.ir.schedule import MatmulTile, Variant
from aotpack.schedule.matmul_tiles import matmul_variants

from .programs import BF16, F16, F32, Size, Writer, load

ARCHES = (80, 86, 89, 90, 100, 103, 120)
B = Var("b", 1, 8192)


def product(m: Size, n: int, k: int, operand: DType) -> Matmul:
    w = Writer((B,))
    x, weight = w.input("x", m, k, dtype=operand), w.weight("w", n, k, dtype=operand)
    rows, columns, depth = Axis("m", Int.of(m)), Axis("n", Int.of(n)), Axis("k", Int.of(k))
    factors = load(x, rows, depth), load(weight, columns, depth)
    return Matmul("y", (), rows, columns, depth, *factors, operand)


def chosen(variants: tuple[Variant, ...], arch: int, rows: int) -> MatmulTile:
    """What a launch takes: the first that admits its measure."""
    suited = [v for v in variants if v.arch_low <= arch <= v.arch_high]
    assert suited[-1].at_most is None
    measures = ((v, v.measure.evaluate({"b": rows})) for v in suited)
    tile = next(v.tile for v, n in measures if v.at_most is None or n <= v.at_most)
    assert isinstance(tile, MatmulTile)
    return tile


@pytest.mark.row("S:G4", "S:N6", "C:H9")
@pytest.mark.parametrize("operand", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("arch", ARCHES)
def test_every_size_has_a_tile_that_fits(arch: int, operand: DType) -> None:
    variants = matmul_variants(product(B, 768, 768, operand))
    for rows in (1, 16, 17, 500, 8192):
        tile = chosen(variants, arch, rows)
        assert min(tile.m, tile.n, tile.k) >= 16
        stages = tile.num_stages * (tile.m + tile.n) * tile.k * operand.itemsize
        assert stages <= GPUS[arch].shared


@pytest.mark.row("S:G3", "S:N6")
def test_few_rows_take_flat_tiles_and_many_rows_tall_ones() -> None:
    variants = matmul_variants(product(B, 4096, 4096, BF16))
    few, many = chosen(variants, 90, 1), chosen(variants, 90, 8192)
    assert few.m == 16 < many.m


def test_a_fixed_number_of_rows_needs_one_tile_for_an_architecture() -> None:
    fixed = matmul_variants(product(128, 768, 768, BF16))
    dynamic = matmul_variants(product(B, 768, 768, BF16))

    def count(variants: tuple[Variant, ...]) -> int:
        return sum(v.arch_low <= 90 <= v.arch_high for v in variants)

    assert count(fixed) == 1 < count(dynamic)
