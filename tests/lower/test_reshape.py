"""Index maps of reshapes: right everywhere, and simple where the shapes allow it."""

import itertools

import numpy as np
import pytest

from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.lower.reshape import reshape_index

B, S = Int.of(Var("b", 1, 64)), Int.of(Var("s", 1, 512))
SHAPES = [(24,), (4, 6), (6, 4), (2, 12), (2, 3, 4), (1, 24, 1), (4, 1, 3, 2), (8, 3), (3, 2, 2, 2)]


def mapped(shape: tuple[Int | int, ...], source: tuple[Int | int, ...]) -> str:
    sizes = tuple(map(Int.of, shape))
    index = tuple(Int.of(Axis(f"i{k}", size)) for k, size in enumerate(sizes))
    return ", ".join(map(str, reshape_index(index, sizes, tuple(map(Int.of, source)))))


@pytest.mark.row("S:C6", "S:C7")
@pytest.mark.parametrize(("shape", "source"), list(itertools.product(SHAPES, SHAPES)))
def test_reads_the_element_numpy_reads(shape: tuple[int, ...], source: tuple[int, ...]) -> None:
    data = np.arange(24).reshape(source)
    sizes = tuple(map(Int.of, shape))
    index = tuple(Int.of(Axis(f"i{k}", size)) for k, size in enumerate(sizes))
    found = reshape_index(index, sizes, tuple(map(Int.of, source)))
    for point in np.ndindex(shape):
        values = {f"i{k}": number for k, number in enumerate(point)}
        assert data[tuple(i.evaluate(values) for i in found)] == data.reshape(shape)[point]


@pytest.mark.row("S:C7")
@pytest.mark.parametrize(
    ("shape", "source", "text"),
    [
        ((B, S, 64), (B * S, 64), "i0*s + i1, i2"),
        ((B * S, 64), (B, S, 64), "(i0//s), (i0%s), i1"),
        ((B, S, 2, 32), (B, S, 64), "i0, i1, 32*i2 + i3"),
        ((B, S, 64), (B, S, 2, 32), "i0, i1, (i2//32), (i2%32)"),
        ((B, 1, S), (B, S), "i0, i1*s + i2"),
        ((0, 3), (3, 0), "0, 0"),
    ],
)
def test_only_what_is_split_or_merged_is_computed(
    shape: tuple[Int | int, ...], source: tuple[Int | int, ...], text: str
) -> None:
    assert mapped(shape, source) == text
