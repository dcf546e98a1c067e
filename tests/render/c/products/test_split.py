"""An axis as two, at the width by which expressions divide it."""

import pytest

from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.render.c.products.split import split

M = Axis("m", Int.of(56 * 28 * 3))
OTHER = Axis("n", Int.of(64))
AT, BESIDE = Int.of(M), Int.of(OTHER)


@pytest.mark.parametrize(
    ("expressions", "width"),
    [
        ([AT // 56, AT % 56], 56),
        ([AT // 56, AT // (56 * 28)], 56),  # the narrowest
        ([(AT // 28) * 5 + BESIDE], 28),
        ([AT + 3, BESIDE // 4], None),
        ([], None),
    ],
)
def test_the_narrowest_width_is_taken(expressions: list[Int], width: int | None) -> None:
    found = split(M, expressions)
    assert (found.width and found.width.constant) == width
    assert (found.row is None) is (width is None)


def test_row_and_column_make_the_axis_again() -> None:
    found = split(M, [AT % 56])
    assert found.row is not None and len(found.axes) == 2
    whole = found.parts[M]
    assert whole == Int.of(found.row) * 56 + Int.of(found.column)
    assert (AT // 56).substitute(found.parts) == Int.of(found.row)
    assert (AT % 56).substitute(found.parts) == Int.of(found.column)


def test_an_axis_that_is_used_whole_stays_itself() -> None:
    found = split(M, [AT])
    assert found.axes == (M,) and found.parts == {M: AT}


def test_a_width_may_be_a_size_of_the_model() -> None:
    width = Int.of(Var("w", 1, 64))
    axis = Axis("m", width * 7)
    found = split(axis, [Int.of(axis) // width])
    assert found.width == width and found.row is not None
    assert [found.row.extent.evaluate({"w": n}) for n in (1, 2, 64)] == [7, 7, 7]
