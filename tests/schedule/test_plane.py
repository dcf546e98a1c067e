"""Pointwise kernels over two axes where addresses walk in two directions, and only there."""

import pytest

from aotpack.ir.schedule import PlaneTile, PointwiseTile

from .programs import Writer, apply, load, schedule_of


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
    assert isinstance(kernel_tile(rows, columns, transposed=True), PlaneTile)


@pytest.mark.row("S:D17", "C:C2", "C:C3")
@pytest.mark.parametrize(
    ("rows", "columns", "transposed"), [(64, 64, False), (3, 4096, True), (4096, 3, True)]
)
def test_a_line_stays_a_line(rows: int, columns: int, transposed: bool) -> None:
    assert isinstance(kernel_tile(rows, columns, transposed=transposed), PointwiseTile)
