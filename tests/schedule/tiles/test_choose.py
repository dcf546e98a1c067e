"""Block sizes: persistent or looped rows, columns, and variants that always have an answer."""

import pytest
import torch
from torch import nn

from aotpack.devices import H200
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import (
    AttentionTile,
    HostTile,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Tile,
)
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from tests.schedule.programs import BF16, F32, Size, Writer, apply, load, schedule_of, scheduled

B = Var("b", 1, 64)
MAX_PERSISTENT = H200.longest_row
MAX_READ_ONCE, LONGEST_COLUMN = MAX_PERSISTENT // 4, MAX_PERSISTENT // 16
MOST_LOOK_BACK_ROWS = 2 * H200.multiprocessors


def rows(count: Size, length: Size) -> Program:
    w = Writer((B,))
    x = w.input("x", count, length)
    return w.program(w.reduction("sum", [count], [length], lambda i, r: load(x, i, r)))


def columns(count: Size, length: Size) -> Program:
    w = Writer((B,))
    x = w.input("x", length, count)
    return w.program(w.reduction("sum", [count], [length], lambda i, r: load(x, r, i)))


def tiles(program: Program) -> list[Tile]:
    (kernel,) = schedule_of(program).kernels
    return [v.tile for v in kernel.variants if not isinstance(v.tile, HostTile)]


@pytest.mark.row("C:B16", "C:H13", "C:L2")
@pytest.mark.parametrize("length", [1, 7, 1000, MAX_READ_ONCE])
def test_rows_that_fit_are_persistent(length: int) -> None:
    for tile in tiles(rows(8, length)):
        assert isinstance(tile, ReductionTile)
        assert tile.persistent and tile.r >= length and tile.r & (tile.r - 1) == 0


@pytest.mark.row("C:B16", "C:L2")
@pytest.mark.parametrize("length", [MAX_READ_ONCE + 1, 30_011])
def test_longer_rows_are_looped(length: int) -> None:
    for tile in tiles(rows(8, length)):
        assert isinstance(tile, ReductionTile) and not tile.persistent


@pytest.mark.parametrize(("length", "persistent"), [(0, True), (5, False)])
def test_rows_that_are_read_again_are_kept_longer(length: int, persistent: bool) -> None:
    (kernel,) = scheduled(nn.Softmax(-1), torch.zeros(2, MAX_PERSISTENT + length)).schedule.kernels
    tiles = [v.tile for v in kernel.variants if not isinstance(v.tile, HostTile)]
    assert all(isinstance(t, ReductionTile) and t.persistent is persistent for t in tiles)


@pytest.mark.row("C:B16", "C:G17")
def test_a_dynamic_row_is_persistent_up_to_its_largest() -> None:
    (tile, *_) = tiles(rows(8, B))
    assert isinstance(tile, ReductionTile) and tile.persistent and tile.r == 64


@pytest.mark.row("S:B11", "S:K7", "C:B19", "C:H12", "C:H9", "C:H10", "C:def10")
def test_columns_take_neighbours_together() -> None:
    for tile in tiles(columns(1024, 300)):
        assert isinstance(tile, ReductionTile) and tile.x >= 16
    for tile in tiles(rows(4096, 4096)):
        assert isinstance(tile, ReductionTile) and tile.x < 16


def columns_again(count: Size, length: Size) -> Program:
    """Each column less its maximum."""
    w = Writer((B,))
    x = w.input("x", length, count)
    top = w.reduction("top", [count], [length], lambda i, r: load(x, r, i), kind="max")
    return w.program(
        w.pointwise("y", (length, count), lambda r, i: apply("sub", load(x, r, i), load(top, i)))
    )


@pytest.mark.row("C:C7", "C:H12")
@pytest.mark.parametrize("length", [1, 50, 512, LONGEST_COLUMN])
@pytest.mark.parametrize("count", [64, 100_000])
def test_columns_that_are_read_again_stay_in_registers(count: int, length: int) -> None:
    for tile in tiles(columns_again(count, length)):
        assert isinstance(tile, ReductionTile) and tile.persistent and tile.r >= length
        assert (8 if count == 64 else 16) <= tile.x <= max(64, 1024 // tile.r)
        assert tile.x * tile.r <= 16384 and 1 <= tile.num_warps <= 16


@pytest.mark.row("C:C7")
def test_longer_columns_and_those_read_once_are_looped() -> None:
    for program in (columns_again(100_000, LONGEST_COLUMN + 1), columns(100_000, 512)):
        for tile in tiles(program):
            assert isinstance(tile, ReductionTile) and not tile.persistent


@pytest.mark.row("C:H12")
@pytest.mark.parametrize(("dtype", "together"), [(F32, 32), (BF16, 64), (DType.INT8, 64)])
def test_a_walk_down_columns_reads_a_cache_line(dtype: DType, together: int) -> None:
    w = Writer(())
    x = w.input("x", 512, 100_000, dtype=dtype)
    total = w.reduction("sum", [100_000], [512], lambda i, r: load(x, r, i), dtype=dtype.compute)
    for tile in tiles(w.program(total)):
        assert isinstance(tile, ReductionTile) and tile.x == together


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


@pytest.mark.row("S:B20")
@pytest.mark.parametrize(("length", "persistent"), [(0, True), (5, False)])
def test_scans_of_long_rows_are_looped(length: int, persistent: bool) -> None:
    rows = MOST_LOOK_BACK_ROWS + 1  # of fewer, each block is a program
    (kernel,) = scheduled(Sums(), torch.zeros(rows, MAX_PERSISTENT + length)).schedule.kernels
    tiles = [v.tile for v in kernel.variants if not isinstance(v.tile, HostTile)]
    assert all(isinstance(t, ReductionTile) and t.persistent is persistent for t in tiles)


def pointwise(*shape: Size) -> Program:
    w = Writer((B,))
    x = w.input("x", *shape)
    return w.program(w.pointwise("y", shape, lambda *i: apply("exp", load(x, *i))))


@pytest.mark.row("C:H8", "C:H9", "C:H11")
def test_pointwise_blocks_grow_with_the_size() -> None:
    ((small,), (large,)) = tiles(pointwise(100)), tiles(pointwise(10_000_000))
    assert isinstance(small, PointwiseTile) and isinstance(large, PointwiseTile)
    assert small.x < large.x
    assert len(tiles(pointwise(B, 100_000))) == 2


def product() -> Program:
    w = Writer((B,))
    x, weight = w.input("x", B, 64), w.weight("w", 64, 64)
    return w.program(w.matmul("y", B, 64, 64, x, weight))


@pytest.mark.row("S:G3", "S:G4", "S:G7", "S:L22", "C:B15")
@pytest.mark.parametrize(
    "program",
    [rows(B, 100), columns(B, 100), pointwise(B, 100_000), product()],
    ids=["rows", "columns", "pointwise", "product"],
)
def test_some_variant_takes_any_size_on_any_architecture(program: Program) -> None:
    for kernel in schedule_of(program).kernels:
        for arch in (75, 80, 86, 90, 100, 120):
            suited = [v for v in kernel.variants if v.takes(arch)]
            assert suited and suited[-1].takes_everything
            assert not any(v.takes_everything for v in suited[:-1])


@pytest.mark.row("S:G1", "S:K5", "C:H9")
def test_products_have_tiles_of_their_own() -> None:
    assert all(isinstance(tile, MatmulTile) for tile in tiles(product()))


class Heads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("length", [64, 128, 256, 512])
def test_attention_fits_the_shared_memory_of_every_architecture(length: int) -> None:
    x = torch.zeros(1, 2, 64, length, dtype=torch.bfloat16)
    (kernel,) = scheduled(Heads(), x).schedule.kernels
    for variant in kernel.variants:
        tile = variant.tile
        if isinstance(tile, AttentionTile):
            elements = length * (tile.i + 2 * tile.j * tile.num_stages)
            assert 2 * elements <= (232_448 if 90 <= variant.arch_low < 110 else 101_376)


def test_measured_attention_tiles_are_left_alone() -> None:
    x = torch.zeros(1, 2, 64, 128, dtype=torch.bfloat16)
    (kernel,) = scheduled(Heads(), x).schedule.kernels
    tiles = [v.tile for v in kernel.variants if isinstance(v.tile, AttentionTile)]
    assert tiles[0] == AttentionTile(128, 32, 8, 3) and tiles[1] == AttentionTile(64, 64, 4, 3)


class Residuals(nn.Module):
    """A linear layer of 640 channels whose result is added to some tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2560, 640, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        total = self.linear(x)
        for other in others:
            total = other + total
        return total


@pytest.mark.parametrize(("residuals", "has_most"), [(0, True), (1, True), (2, False)])
def test_sums_leave_registers_for_what_is_added(residuals: int, has_most: bool) -> None:
    rows = torch.zeros(4096, 2560, dtype=torch.bfloat16)
    others = [torch.zeros(4096, 640, dtype=torch.bfloat16) for _ in range(residuals)]
    (kernel,) = scheduled(Residuals(), rows, *others).on(90).kernels
    tiles = [tile for variant in kernel.variants for tile in variant.tiles if variant.takes(90)]
    sums = [t.m * t.n // t.num_warps // 32 for t in tiles if isinstance(t, MatmulTile)]
    assert (max(sums) == 128) == has_most


@pytest.mark.parametrize(("channels", "depth"), [(3, 16), (64, 32)])
def test_float32_windows_of_few_channels_take_short_steps(channels: int, depth: int) -> None:
    image = torch.zeros(8, channels, 56, 56)
    kernels = scheduled(nn.Conv2d(channels, 64, 7, 2, 3), image).on(90).kernels
    tiles = [v.tile for kernel in kernels for v in kernel.variants if v.takes(90)]
    assert {tile.k for tile in tiles if isinstance(tile, MatmulTile)} == {depth}


@pytest.mark.parametrize(("dtype", "block"), [(DType.INT8, 2048), (DType.BOOL, 2048), (F32, 1024)])
def test_threads_store_whole_vectors_of_bytes(dtype: DType, block: int) -> None:
    w = Writer()
    x = w.input("x", 10_000_000, dtype=dtype)
    ((tile,),) = (
        tiles(w.program(w.pointwise("y", [10_000_000], lambda i: load(x, i), dtype=dtype))),
    )
    assert isinstance(tile, PointwiseTile) and tile.x == block


@pytest.mark.parametrize(
    ("kind", "length", "warps", "vectors"),
    [
        ("welford", 2**26, 8, 4),
        ("welford", Var("n", 2**16, 2**22), 4, 4),  # its rest takes registers
        ("sum", 2**26, 8, 2),
        ("sum", Var("n", 2**16, 2**22), 8, 2),
    ],
)
def test_a_thread_loads_what_it_combines(kind: str, length: Size, warps: int, vectors: int) -> None:
    w = Writer((length,) if isinstance(length, Var) else ())
    x = w.input("x", 1, length)
    names = ("m", "s") if kind == "welford" else ("y",)
    made = w.reductions(names, [1], [length], lambda i, r: load(x, i, r), kind=kind)
    first, *_ = schedule_of(w.program(*made)).kernels
    (tile, *_) = [v.tile for v in first.variants if not isinstance(v.tile, HostTile)]
    assert isinstance(tile, ReductionTile) and not tile.persistent
    assert tile.num_warps == warps and tile.r == vectors * tile.group * 32 * warps
