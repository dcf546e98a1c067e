"""Shapes of what depends on some axes of a tile, and blocks that divide nothing."""

import pytest

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.emit.frame import Frame

Y, X = Axis("y", Int.of(300)), Axis("x", Int.of(4096))
TILE = Frame({Y: "y", X: "x"}, {Y: "y_mask"}, ((Y, 16), (X, 64)), {X: "x_start"})
VECTORS = Frame({X: "x"}, {}, ((X, 64),), vector=4)


@pytest.mark.parametrize(
    ("frame", "axes", "shape"),
    [
        (TILE, {Y, X}, "[16, 64]"),
        (TILE, {X}, "[1, 64]"),
        (TILE, set(), "[1, 1]"),
        (VECTORS, {X}, "[4, 16]"),
        (VECTORS, {Y}, "[1, 1]"),
    ],
)
def test_dimensions_without_their_axis_are_1(frame: Frame, axes: set[Axis], shape: str) -> None:
    assert frame.shape(frozenset(axes)) == shape


def test_an_axis_without_a_block_spans_no_dimension() -> None:
    z = Axis("z", Int.of(7))
    assert TILE.spread(frozenset({X, z})) == {X}


@pytest.mark.parametrize(
    ("divisor", "axis", "start"),
    [(128, X, "x_start"), (64, X, "x_start"), (96, X, None), (128, Y, None)],
)
def test_a_block_that_a_divisor_holds_whole_has_one_quotient(
    divisor: int, axis: Axis, start: str | None
) -> None:
    (atom,) = (Int.of(axis) // divisor).atoms()
    assert TILE.start(atom) == start
    (rest,) = (Int.of(axis) % 96).atoms()
    assert TILE.start(rest) is None
