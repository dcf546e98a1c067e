"""Variants for processors: dot products for few rows, lanes across the windows of pooling."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.tiles import HostTile, Variant
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.schedule.tiles.host import FEW, HOST_ARCH
from tests.schedule.programs import Size, Writer, schedule_of, scheduled

B = Var("b", 1, 64)


def host_variants(m: Size, n: int, *, weight_rows: bool = True) -> list[Variant]:
    """Those of ``x @ w.T``, or of ``x @ w``."""
    w = Writer((B,))
    shape = (n, 96) if weight_rows else (96, n)
    x, weight = w.input("x", m, 96), w.weight("w", *shape)
    product = w.matmul("y", m, n, 96, x, weight, by_rows=weight_rows)
    (kernel,) = schedule_of(w.program(product)).kernels
    return [v for v in kernel.variants if (v.arch_low, v.arch_high) == HOST_ARCH]


@pytest.mark.parametrize(
    ("m", "n", "few"), [(1, 768, "m"), (FEW, 768, "m"), (300, FEW, "n"), (3, 5, "m")]
)
def test_few_rows_become_dot_products(m: int, n: int, few: str) -> None:
    (variant,) = host_variants(m, n)
    assert variant.tile == HostTile(short_axis=few) and variant.at_most is None


def test_a_dynamic_number_of_rows_decides_when_called() -> None:
    few, packed = host_variants(B, 768)
    assert few.tile == HostTile(short_axis="m") and (few.measure, few.at_most) == (Int.of(B), FEW)
    assert packed.tile == HostTile() and packed.at_most is None


@pytest.mark.parametrize(
    ("m", "n", "weight_rows"), [(FEW + 1, FEW + 1, True), (1, 768, False)], ids=["many", "columns"]
)
def test_other_products_are_packed(m: int, n: int, weight_rows: bool) -> None:
    (variant,) = host_variants(m, n, weight_rows=weight_rows)
    assert variant.tile == HostTile()


def attention_tiles(queries: int, *, dynamic: bool = False, turned: bool = False) -> list[Variant]:
    """Those of attention to 40 keys, whose rows are columns where they are turned."""

    class Attended(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k.mT if turned else k, v)

    keys = torch.zeros(1, 2, 8, 40) if turned else torch.zeros(1, 2, 40, 8)
    args = torch.zeros(1, 2, queries, 8), keys, torch.zeros(1, 2, 40, 8)
    shapes = ({2: Dim("i", min=1, max=64)}, None, None) if dynamic else None
    (kernel,) = scheduled(Attended(), *args, dynamic_shapes=shapes).schedule.kernels
    return [v for v in kernel.variants if (v.arch_low, v.arch_high) == HOST_ARCH]


@pytest.mark.parametrize("queries", [1, FEW])
def test_few_queries_become_dot_products(queries: int) -> None:
    (variant,) = attention_tiles(queries)
    assert variant.tile == HostTile(short_axis="i") and variant.others == (HostTile(),)


def test_a_dynamic_number_of_queries_decides_when_called() -> None:
    few, packed = attention_tiles(3, dynamic=True)
    assert few.tile == HostTile(short_axis="i") and few.at_most == FEW
    assert packed.tile == HostTile() and packed.at_most is None


@pytest.mark.parametrize(("queries", "turned"), [(FEW + 1, False), (1, True)])
def test_keys_are_packed_for_many_queries_or_where_they_are_columns(
    queries: int, turned: bool
) -> None:
    (variant,) = attention_tiles(queries, turned=turned)
    assert variant.tile == HostTile()


@pytest.mark.parametrize(
    ("module", "shape", "along"),
    [
        (nn.MaxPool2d(3, 2, 1), (1, 8, 32, 32), "x"),
        (nn.AdaptiveAvgPool2d(1), (1, 8, 7, 7), "r"),
        (nn.MaxPool2d(4), (1, 8, 32, 32), "r"),
    ],
    ids=["windows", "whole-planes", "wide-steps"],
)
def test_windows_that_overlap_lie_across_lanes(
    module: nn.Module, shape: tuple[int, ...], along: str
) -> None:
    kernels = scheduled(module, torch.randn(shape)).schedule.kernels
    tiles = [v.tile for k in kernels if len(k.axes) == 2 for v in k.variants]
    assert [tile.along for tile in tiles if isinstance(tile, HostTile)] == [along]
