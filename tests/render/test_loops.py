"""Walks over rows: in registers or in loops; masks only where a block may reach over the end."""

import pytest

from aotpack.ir.nodes import Program
from tests.schedule.programs import Writer, apply, load

from .models import kernel_text, rendered_program

ROWS = 4096  # enough to fill a machine, so that no row is split


def total(length: int) -> str:
    """Row sums."""
    w = Writer()
    x = w.input("x", ROWS, length)
    return text_of(w.program(w.reduction("sum", [ROWS], [length], lambda i, r: load(x, i, r))))


def shares(length: int) -> str:
    """Each element's share of its row's sum."""
    w = Writer()
    x = w.input("x", ROWS, length)
    sums = w.reduction("sum", [ROWS], [length], lambda i, r: load(x, i, r))
    return text_of(
        w.program(
            w.pointwise(
                "y", [ROWS, length], lambda i, j: apply("div", load(x, i, j), load(sums, i))
            )
        )
    )


def columns(count: int) -> str:
    """Column sums."""
    w = Writer()
    x = w.input("x", 31, count)
    return text_of(w.program(w.reduction("sum", [count], [31], lambda i, r: load(x, r, i))))


def points(count: int) -> str:
    w = Writer()
    x = w.input("x", count)
    return text_of(w.program(w.pointwise("y", [count], lambda i: apply("tanh", load(x, i)))))


def text_of(program: Program) -> str:
    return kernel_text(rendered_program(program))


def test_rows_that_fit_are_straight_code() -> None:
    assert "for " not in shares(5000)


def test_longer_rows_are_loops_and_are_read_again_after_one() -> None:
    assert total(50021).count("for r_start in range(0, 50021, 4096):") == 1
    assert shares(50021).count("for r_start in range(0, 50021, 4096):") == 2


@pytest.mark.parametrize(("length", "masked"), [(1024, False), (1000, True)])
def test_a_row_is_masked_unless_the_block_is_the_row(length: int, masked: bool) -> None:
    assert ("r_mask" in shares(length)) is masked


@pytest.mark.parametrize(("length", "masked"), [(4096 * 20, False), (50021, True)])
def test_a_loop_is_masked_unless_the_block_divides_the_row(length: int, masked: bool) -> None:
    assert ("r_mask" in total(length)) is masked


@pytest.mark.parametrize(("count", "masked"), [(512, False), (500, True)])
def test_columns_are_masked_unless_the_block_divides_them(count: int, masked: bool) -> None:
    assert ("x_mask" in columns(count)) is masked


@pytest.mark.parametrize(("count", "masked"), [(2048, False), (2000, True)])
def test_points_are_masked_unless_the_block_divides_them(count: int, masked: bool) -> None:
    assert ("x_mask" in points(count)) is masked
