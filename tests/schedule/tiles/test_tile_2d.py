"""Pointwise kernels over two axes where addresses walk in two directions, and only there."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import PointwiseTile, Tile2D
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.target import Target
from tests.ptx import access_bytes
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import BF16, F32, Writer, apply, load, lowered, schedule_of


def kernel_tile(rows: int, columns: int, *, transposed: bool) -> object:
    w = Writer(())
    x = w.input("x", rows, columns)
    y = w.input("y", *((columns, rows) if transposed else (rows, columns)))
    total = w.pointwise(
        "total",
        [rows, columns],
        lambda i, j: apply("add", load(x, i, j), load(y, j, i) if transposed else load(y, i, j)),
    )
    (kernel,) = schedule_of(w.program(total)).kernels
    return kernel.variants[-1].tile


@pytest.mark.row("S:D17", "S:F3", "C:C1", "C:C2", "C:C3", "C:inv9", "C:L1", "C:A14")
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (1000, 300), (17, 4096)])
def test_a_transposed_operand_gets_a_plane(rows: int, columns: int) -> None:
    assert isinstance(kernel_tile(rows, columns, transposed=True), Tile2D)


def in_three_directions(i: int, j: int, k: int, *, third: bool) -> Program:
    """Of three operands each is contiguous along another axis, or two along one."""
    w = Writer(())
    x, y = w.input("x", i, j, k, dtype=BF16), w.input("y", k, i, j, dtype=BF16)
    z = w.input("z", *((j, k, i) if third else (k, i, j)), dtype=BF16)

    def value(a: Int, b: Int, c: Int) -> Value:
        last = load(z, b, c, a) if third else load(z, c, a, b)
        return apply("add", apply("add", load(x, a, b, c), load(y, c, a, b)), last)

    return w.program(w.pointwise("total", (i, j, k), value, dtype=BF16))


@pytest.mark.row("C:C4", "C:C6", "C:H14")
@pytest.mark.parametrize("third", [False, True])
def test_a_third_direction_gets_a_side_of_its_own(third: bool) -> None:
    made = schedule(lowered(in_three_directions(96, 80, 112, third=third)))
    tile = made.schedule.kernels[0].variants[-1].tile
    assert isinstance(tile, Tile2D) and (tile.z > 0) is third
    product = render(made, (Target("cuda", 90),))
    found = access_bytes(product.kernels[0])
    assert set(found["ld"]) == set(found["st"]) == {16}
    blocks = 210 if third else -(-96 * 80 // 64) * 2
    assert plan_of(product)(90).launches[0].grid == (blocks, 1, 1)


@pytest.mark.row("C:C2", "C:C3")
@pytest.mark.parametrize(("wide", "width"), [("y", 112), ("z", 80 * 112)])
def test_lines_are_those_along_which_most_bytes_become_contiguous(wide: str, width: int) -> None:
    w = Writer(())
    shapes = {"x": (96, 80, 112), "y": (112, 96, 80), "z": (80, 112, 96)}
    x, y, z = (w.input(n, *s, dtype=F32 if n == wide else BF16) for n, s in shapes.items())

    def value(a: Int, b: Int, c: Int) -> Value:
        return apply("add", apply("add", load(x, a, b, c), load(y, c, a, b)), load(z, b, c, a))

    (kernel,) = schedule_of(w.program(w.pointwise("total", shapes["x"], value, dtype=BF16))).kernels
    tile = kernel.variants[-1].tile
    assert isinstance(tile, Tile2D) and int(tile.width) == width


@pytest.mark.row("S:D17", "C:C2", "C:C3")
@pytest.mark.parametrize(
    ("rows", "columns", "transposed"), [(64, 64, False), (3, 4096, True), (4096, 3, True)]
)
def test_a_line_stays_a_line(rows: int, columns: int, transposed: bool) -> None:
    assert isinstance(kernel_tile(rows, columns, transposed=transposed), PointwiseTile)


@pytest.mark.row("C:C2")
@pytest.mark.parametrize(("columns", "banded"), [(32_000, False), (128_256, True)])
def test_lines_that_fill_l2_go_in_bands(columns: int, banded: bool) -> None:
    tile = kernel_tile(523, columns, transposed=True)
    assert isinstance(tile, Tile2D) and (tile.band > 1) is banded


@pytest.mark.row("C:C3")
@pytest.mark.parametrize(("dtype", "tensors", "warps"), [(BF16, 1, 8), (BF16, 2, 16), (F32, 2, 16)])
def test_a_thread_of_a_plane_reads_32_bytes(dtype: DType, tensors: int, warps: int) -> None:
    w = Writer(())
    x, y = w.input("x", 4096, 2048, dtype=dtype), w.input("y", 2048, 4096, dtype=dtype)

    def value(i: Int, j: Int) -> Value:
        turned = load(x, j, i)
        return turned if tensors == 1 else apply("add", turned, load(y, j, i))

    (kernel,) = schedule_of(w.program(w.pointwise("z", (2048, 4096), value, dtype=dtype))).kernels
    tile = kernel.variants[-1].tile
    assert isinstance(tile, Tile2D) and tile.num_warps == warps


@pytest.mark.row("C:C3")
@pytest.mark.parametrize(("other", "warps"), [("x", 8), ("y", 16)])
def test_what_two_operations_read_is_read_once(other: str, warps: int) -> None:
    w = Writer(())
    tensors = {name: w.input(name, 4096, 2048, dtype=BF16) for name in ("x", "y")}

    def value(i: Int, j: Int) -> Value:
        return apply("add", load(tensors["x"], j, i), 1)

    def product(i: Int, j: Int) -> Value:
        return apply("mul", load(tensors["x"], j, i), load(tensors[other], j, i))

    made = [
        w.pointwise(f"z{n}", (2048, 4096), f, dtype=BF16) for n, f in enumerate((value, product))
    ]
    (kernel,) = schedule_of(w.program(*made)).kernels
    tile = kernel.variants[-1].tile
    assert isinstance(tile, Tile2D) and tile.num_warps == warps
