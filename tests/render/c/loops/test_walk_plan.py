"""How often a row is walked, and what is kept from one walk to the next."""

import re

import pytest

from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from tests.render.models import c_kernel
from tests.schedule.programs import Writer, apply, load

ROWS, LENGTH = 6, 999


def walks(text: str) -> int:
    """Loops over a row; those in lanes are two loops each, blocks and a rest."""
    lanes = len(re.findall(rf"\+ \d+ <= {LENGTH}; ", text))
    return lanes + len(re.findall(rf"int64_t r = (?:0|r_block); r < {LENGTH}; r\+\+", text))


def row_sum(w: Writer, name: str, *buffers: Buffer, op: str = "") -> Buffer:
    """The sum of a product of rows, or of an operator on them."""

    def value(i: Int, r: Int) -> Value:
        first, *others = (load(buffer, i, r) for buffer in buffers)
        product: Value = first
        for other in others:
            product = apply("mul", product, other)
        return apply(op, product) if op else product

    return w.reduction(name, [ROWS], [LENGTH], value)


def divided(op: str) -> Program:
    """Each element's share of its row, of an operator on the elements."""
    w = Writer()
    x = w.input("x", ROWS, LENGTH)
    total = row_sum(w, "s", x, op=op)

    def value(i: Int, j: Int) -> Value:
        return apply("div", apply(op, load(x, i, j)), load(total, i))

    return w.program(w.pointwise("y", [ROWS, LENGTH], value))


@pytest.mark.parametrize(("op", "kept"), [("tanh", True), ("relu", False)])
def test_what_is_dear_is_kept_in_a_row_buffer_and_what_is_cheap_is_made_again(
    op: str, kept: bool
) -> None:
    text = c_kernel(divided(op))
    assert walks(text) == 2
    assert ("(scratch + 0)" in text) is kept
    assert text.count("aot_tanh_float32(") == 2 * kept  # in blocks of lanes, and in the rest


def test_what_needs_a_result_waits_for_the_next_walk() -> None:
    w = Writer()
    x = w.input("x", ROWS, LENGTH)
    total = row_sum(w, "s", x)
    spread = w.reduction(
        "d",
        [ROWS],
        [LENGTH],
        lambda i, r: apply("abs", apply("sub", load(x, i, r), load(total, i))),
    )
    assert walks(c_kernel(w.program(spread))) == 2
    assert walks(c_kernel(w.program(total))) == 1


@pytest.mark.parametrize(("others", "count"), [(("x", "y"), 1), (("y",), 2)])
def test_sums_that_read_nothing_in_common_have_walks_apart(
    others: tuple[str, ...], count: int
) -> None:
    w = Writer()
    x, c = w.input("x", ROWS, LENGTH), w.input("c", ROWS, 1)
    y = w.input("y", ROWS, LENGTH)
    known = {"x": x, "y": y}

    def scaled(name: str, *buffers: Buffer) -> Buffer:
        def value(i: Int, r: Int) -> Value:
            made: Value = load(c, i, 0)
            for buffer in buffers:
                made = apply("mul", made, load(buffer, i, r))
            return made

        return w.reduction(name, [ROWS], [LENGTH], value)

    first, second = scaled("a", x), scaled("b", *(known[name] for name in others))
    assert walks(c_kernel(w.program(first, second))) == count
