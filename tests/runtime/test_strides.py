"""Strides of memory orders, and which strides have gaps."""

import pytest

from aotpack.runtime.strides import is_dense, strides


def test_strides_of_an_order() -> None:
    assert strides((2, 3, 4)) == (12, 4, 1)
    assert strides((2, 3, 4), (2, 0, 1)) == (3, 1, 6)
    assert strides((2, 0, 4)) == (4, 4, 1) and strides(()) == ()


@pytest.mark.parametrize(
    ("shape", "found", "order", "dense"),
    [
        ((2, 3), None, (), True),
        ((2, 3), (3, 1), (), True),
        ((2, 1, 3), (3, 99, 1), (), True),
        ((0, 3), (7, 7), (), True),
        ((2, 3), (1, 2), (), False),
        ((2, 3), (4, 1), (), False),
        ((2, 3), (1, 2), (1, 0), True),
        ((2, 3), (1, 3), (1, 0), False),
        ((2, 3), None, (1, 0), False),
        ((1, 3), None, (1, 0), True),
        ((2, 3, 1, 4), (12, 1, 99, 3), (0, 2, 3, 1), True),
    ],
)
def test_dense_strides(
    shape: tuple[int, ...],
    found: tuple[int, ...] | None,
    order: tuple[int, ...],
    dense: bool,
) -> None:
    assert is_dense(shape, found, order) is dense
