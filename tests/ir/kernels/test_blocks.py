"""Rectangles of memory are found in offsets, checked against every point; the rest is refused."""

from itertools import product as points

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.blocks import Block, block_of, described_block, placed_block
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var
from aotpack.ir.values import Load

S = Var("s", 1, 64)
M, K, G = Axis("m", Int.of(48)), Axis("k", Int.of(20)), Axis("g", Int.of(3))
X, Y = Axis("x", Int.of(24)), Axis("y", Int.of(S))
m, k, g, x, y = map(Int.of, (M, K, G, X, Y))
SIDES = ((M, 4), (K, 8))


def touched(
    block: Block, at: dict[str, int], starts: dict[Axis, int]
) -> dict[tuple[int, ...], int]:
    """The offset of each element of a block, by its place in the block, where it is inside."""
    names = at | {axis.name: start for axis, start in starts.items()}
    base = int(block.base.evaluate(names))
    found = {}
    for place in points(*(range(one.length) for one in block.dimensions)):
        offset, inside = base, True
        for one, step in zip(block.dimensions, place, strict=True):
            index = int(one.start.evaluate(names)) + step
            inside &= index < int(one.size.evaluate(names))
            offset += index * int(one.stride.evaluate(names))
        if inside:
            found[place] = offset
    return found


@pytest.mark.row("C:F17", "C:F18", "C:F19", "C:F20", "C:F21")
@pytest.mark.parametrize(
    ("offset", "rank"),
    [
        (m * 20 + k, 2),
        (k * 48 + m, 2),
        (m * 20 + k + g * 960 + 7, 2),
        (m // 8 * 400 + m % 8 * 20 + k, 2),
        (m // 24 * 500 + m % 24 * 20 + g * 3, 1),
        (g * 20 + k, 1),
        (g + 5, 0),
        (m * S + k * 2, 2),
        (m // 16 * (16 * Int.of(S)) + m % 16 + k * 64, 2),
    ],
)
def test_every_element_of_a_block_is_where_the_offset_says(offset: Int, rank: int) -> None:
    block = block_of(offset, SIDES)
    assert block is not None and len(block.dimensions) == rank
    walked = [one.axis for one in block.dimensions]
    lengths = dict(SIDES)
    for s, first_m, first_k, group in points((5, 64), range(0, 48, 4), range(0, 20, 8), range(3)):
        at = {"s": s, "g": group}
        found = touched(block, at, {M: first_m, K: first_k})
        starts = {M: first_m, K: first_k}
        expected = {}
        for place in points(*(range(lengths[axis]) for axis in walked)):
            here = starts | {a: starts[a] + step for a, step in zip(walked, place, strict=True)}
            if all(here[axis] < int(axis.extent) for axis in (M, K)):
                names = at | {axis.name: value for axis, value in here.items()}
                expected[place] = int(offset.evaluate(names))
        assert found == expected


def loaded(index: Int) -> Int:
    return Int.of(Indirect(Load("i", (index,), DType.INT64), Int.of(9)))


@pytest.mark.row("C:F17", "C:F19")
@pytest.mark.parametrize(
    "offset",
    [
        m * k,
        (m * 20 + k) // 3,
        (m + k) % 8,
        loaded(m) + k,
        m + k + loaded(Int.of(0)),
        m * m + k,
        m % 6 + k,
        m // 6 * 20 + m % 6 + k,
        m + m % 8 + k,
        m // 8 + k,
        k // 8 * 30 + k % 8 + m,
    ],
)
def test_what_is_no_rectangle_is_refused(offset: Int) -> None:
    assert block_of(offset, SIDES) is None


@pytest.mark.row("C:F24")
@pytest.mark.parametrize(
    ("stride", "described"), [(64, True), (-64, False), (0, False), (60, False)]
)
def test_descriptors_walk_forwards_in_whole_multiples(stride: int, described: bool) -> None:
    block = described_block(k + stride * m + 64 * 64, ((M, 4), (K, 8)), itemsize=2)
    assert (block is not None) is described


@pytest.mark.parametrize(
    ("base", "outer"),
    [
        (4096 * g, ["g"]),
        (4096 * (g // 2) + 512 * (g % 2), ["g//2", "g % 2"]),
        (Int.of(64), []),
    ],
)
def test_what_differs_between_programs_becomes_dimensions(base: Int, outer: list[str]) -> None:
    found = described_block(base + 64 * m + k, ((M, 4), (K, 8)), itemsize=2)
    assert found is not None
    placed = placed_block(found, itemsize=2)
    assert placed is not None and placed.dimensions[-2:] == found.dimensions
    assert len(placed.dimensions) == 2 + len(outer) and placed.base.constant is not None
    for number in range(3):
        at = {"g": number, "m": 0, "k": 0}
        start = sum(
            int(one.start.evaluate(at)) * int(one.stride.evaluate(at)) for one in placed.dimensions
        )
        assert start + int(placed.base.constant) == int(base.evaluate(at))


@pytest.mark.parametrize("base", [4096 * g * x, 4 * g, 64 * loaded(g), -64 * g])
def test_places_that_no_descriptor_has_are_refused(base: Int) -> None:
    found = block_of(base + 64 * m + k, ((M, 4), (K, 8)))
    assert found is None or placed_block(found, itemsize=2) is None
