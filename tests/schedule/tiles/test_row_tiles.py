"""Threads of a row in registers: one for each 32 bytes that are read, none of them idle."""

import pytest

from aotpack.devices import H200
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from tests.schedule.programs import BF16, F32, Size, Writer, apply, load, schedule_of

FEW_ROWS, MANY = H200.multiprocessors, 100_000


def row_kernel(rows: Size, length: Size, dtypes: tuple[DType, ...], *sizes: Var) -> Program:
    """The sum of tensors, scaled by a vector, less its maximum in each row."""
    w = Writer(sizes)
    tensors = [w.input(f"x{n}", rows, length, dtype=dtype) for n, dtype in enumerate(dtypes)]
    scale = w.input("scale", length)
    total = w.pointwise(
        "total",
        (rows, length),
        lambda i, k: apply(
            "mul",
            load(tensors[0], i, k)
            if len(tensors) == 1
            else apply("add", *(load(x, i, k) for x in tensors)),
            load(scale, k),
        ),
    )
    top = w.reduction("top", [rows], [length], lambda i, k: load(total, i, k), kind="max")
    return w.program(
        w.pointwise(
            "y",
            (rows, length),
            lambda i, k: apply("sub", load(total, i, k), load(top, i)),
            dtype=dtypes[0],
        )
    )


def tile_of(program: Program) -> ReductionTile:
    (kernel,) = schedule_of(program).kernels
    tile = kernel.variants[-1].tile
    assert isinstance(tile, ReductionTile) and tile.persistent
    return tile


@pytest.mark.row("C:B16", "C:H13", "C:L2")
@pytest.mark.parametrize(
    ("dtypes", "length", "warps"),
    [
        ((F32,), 1024, 4),
        ((F32,), 4096, 16),
        ((F32,), 8192, 8),  # so that several programs fit
        ((F32,), 16384, 8),
        ((BF16,), 1024, 2),
        ((BF16,), 4096, 8),
        ((F32, F32), 1024, 8),  # all tensors count, but not the vector that all rows share
        ((BF16, BF16), 4096, 16),
        ((BF16,), 768, 1),  # two warps: one and a half reads
        ((F32,), 768, 2),
        ((BF16,), 5120, 4),
        ((F32,), 5120, 8),
        ((BF16, BF16), 3000, 8),
    ],
)
def test_a_thread_reads_32_bytes(dtypes: tuple[DType, ...], length: int, warps: int) -> None:
    tile = tile_of(row_kernel(MANY, length, dtypes))
    assert (tile.x, tile.num_warps) == (1, warps)


@pytest.mark.parametrize(("dtypes", "warps"), [((F32,), 4), ((BF16,), 2), ((BF16, BF16), 4)])
@pytest.mark.parametrize("length", [64, 256, 512])
def test_short_rows_share_programs(length: int, dtypes: tuple[DType, ...], warps: int) -> None:
    tile = tile_of(row_kernel(MANY, length, dtypes))
    assert tile.x * tile.r == 1024 and tile.num_warps == warps


def test_rows_that_move_little_share_programs() -> None:
    """A GPU begins a program for each 2500 bytes at most."""
    w = Writer()
    x = w.input("x", MANY, 1024, dtype=BF16)
    sums = w.reduction("sum", [MANY], [1024], lambda i, k: load(x, i, k))
    tile = tile_of(w.program(sums))
    assert (tile.x, tile.num_warps) == (2, 4)
    assert tile_of(row_kernel(MANY, 1024, (BF16,))).x == 1


@pytest.mark.parametrize(("length", "warps"), [(1024, 1), (4096, 4)])
def test_positions_are_sought_by_few_warps(length: int, warps: int) -> None:
    w = Writer()
    x = w.input("x", MANY, length)
    made = w.reduction(
        "found", [MANY], [length], lambda i, k: load(x, i, k), kind="argmax", dtype=DType.INT64
    )
    assert tile_of(w.program(made)).num_warps == warps


@pytest.mark.parametrize("length", [1, 3, 513, 1024, 5120, 12_000])
@pytest.mark.parametrize("dtypes", [(F32,), (BF16,), (BF16, BF16)])
def test_a_warp_has_a_vector_for_each_lane_or_is_alone(
    dtypes: tuple[DType, ...], length: int
) -> None:
    for rows in (FEW_ROWS + 1, MANY):
        tile = tile_of(row_kernel(rows, length, dtypes))
        held = tile.x * tile.r // (32 * tile.num_warps)
        assert tile.num_warps == 1 or held >= 16 // dtypes[0].itemsize


def test_few_rows_have_more_threads() -> None:
    assert tile_of(row_kernel(FEW_ROWS, 1024, (BF16,))).num_warps == 4
    assert tile_of(row_kernel(FEW_ROWS + 1, 1024, (BF16,))).num_warps == 2


def test_rows_of_any_length_count_by_their_registers() -> None:
    length = Var("n", 1, 5120)
    assert tile_of(row_kernel(MANY, length, (BF16,), length)).num_warps == 8
