"""Walks over rows: in registers or in loops; masks only where a block may reach over the end."""

import re

import pytest

from aotpack.ir.program import Program
from tests.render.models import kernel_text, rendered_program
from tests.schedule.programs import Writer, apply, load

OPERANDS = re.compile(r"tt\.elementwise_inline_asm \"[^\"]*mbarrier.* : ([^:]*) ->")
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


@pytest.mark.row("C:G3")
def test_rows_that_fit_are_straight_code() -> None:
    assert "for " not in shares(5000)


@pytest.mark.row("C:B8", "C:B9", "C:G4", "C:G13", "C:def10")
def test_longer_rows_are_loops_and_are_read_again_after_one() -> None:
    whole = "in tl.range(0, 49152, 2048, loop_unroll_factor=4):"
    assert total(50021).count(f"for r_start {whole}") == 1
    assert total(50021).count("for r_start in range(49152, 50021, 2048):") == 1
    assert shares(50021).count("for r_start in range(0, 49152, 16384):") == 2


def test_the_last_block_stays_in_registers_between_walks() -> None:
    for length in (50021, 24576):
        assert shares(length).count("tl.load(x_ptr + rest") == 1
        assert shares(length).count("tl.store(out_ptr + rest") == 1
    assert "rest" not in total(50021)  # nothing is read again


@pytest.mark.row("C:F7", "C:def2")
def test_what_is_read_again_stays_in_caches_until_then() -> None:
    first, rest, again = re.findall(r"tl.load\(x_ptr.*", shares(50021))
    assert 'eviction_policy="evict_last"' in first
    assert all('eviction_policy="evict_first"' in line for line in (rest, again))
    assert "eviction_policy" not in total(50021)


def spread(length: int) -> str:
    """Each row's mean and squares."""
    w = Writer()
    x = w.input("x", ROWS, length)
    return text_of(
        w.program(
            *w.reductions(("m", "s"), [ROWS], [length], lambda i, r: load(x, i, r), kind="welford")
        )
    )


def test_neighbours_are_combined_before_they_meet_the_accumulators() -> None:
    text = spread(50021)
    assert "group_welford(tl.reshape(t1, [4, 128, 4]))" in text
    assert "acc" in text and "tl.full([128], 0.0, tl.float32)" in text


def scaled(length: int) -> str:
    """Rows by a number each."""
    w = Writer()
    x, y = w.input("x", ROWS, length), w.input("y", ROWS)
    value = w.pointwise("z", [ROWS, length], lambda i, j: apply("mul", load(x, i, j), load(y, i)))
    return text_of(w.program(value))


@pytest.mark.row("C:A14", "C:F6")
def test_what_a_block_shares_is_loaded_once() -> None:
    assert "(tl.program_id(0)*1024) // 2048" in scaled(2048)
    assert "x // 1000" in scaled(1000)  # a block may reach into the next row


@pytest.mark.row("C:F4", "C:inv11")
@pytest.mark.parametrize(("length", "masked"), [(1024, False), (1000, True)])
def test_a_row_is_masked_unless_the_block_is_the_row(length: int, masked: bool) -> None:
    assert ("r_mask" in shares(length)) is masked


@pytest.mark.row("C:F4", "C:inv11", "C:def11")
@pytest.mark.parametrize(("length", "masked"), [(4096 * 20, False), (50021, True)])
def test_a_loop_is_masked_unless_the_block_divides_the_row(length: int, masked: bool) -> None:
    assert ("r_mask" in total(length)) is masked
    assert total(length).count("mask=") == masked  # the rest alone


@pytest.mark.row("C:F4", "C:inv11", "C:def11")
@pytest.mark.parametrize(("count", "masked"), [(512, False), (500, True)])
def test_columns_are_masked_unless_the_block_divides_them(count: int, masked: bool) -> None:
    assert ("x_mask" in columns(count)) is masked


@pytest.mark.row("C:F4", "C:inv11", "C:def11")
@pytest.mark.parametrize(("count", "masked"), [(2048, False), (2000, True)])
def test_points_are_masked_unless_the_block_divides_them(count: int, masked: bool) -> None:
    assert ("x_mask" in points(count)) is masked
