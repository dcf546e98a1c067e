"""Rows with room behind them: which strides have them, what they take, what stays inside."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import contiguous
from aotpack.ir.kernels.rows import Row, has_legal_strides, row_of, storage_elements
from aotpack.ir.program import Buffer
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var
from aotpack.ir.values import Load

B = Var("b", 1, 64)
ROWS, COLUMNS = Axis("i", Int.of(B)), Axis("j", Int.of(1030))


def ints(*sizes: int | Var) -> tuple[Int, ...]:
    return tuple(map(Int.of, sizes))


@pytest.mark.row("S:D5", "S:D10")
def test_a_row_with_room_and_what_all_take() -> None:
    shape, strides = ints(B, 3, 1030), ints(3168, 1056, 1)
    assert row_of(shape, strides) == Row(1030, 1056)
    assert storage_elements(shape, strides) == 3168 * Int.of(B)
    assert has_legal_strides(Buffer("t", DType.FLOAT32, shape), strides)


@pytest.mark.row("S:D5", "S:D10")
def test_without_gaps_there_is_no_room() -> None:
    shape = ints(B, 3, 1030)
    assert row_of(shape, contiguous(shape)) is None
    assert storage_elements(shape, contiguous(shape)) == 3090 * Int.of(B)
    assert row_of(ints(5), ints(1)) is None
    assert storage_elements((), ()).constant == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_dimensions_that_are_alike_at_small_sizes_keep_their_order(swapped: bool) -> None:
    b, s = Int.of(Var("b", 1, 3)), Int.of(Var("s", 1, 3))
    inner = s if swapped else b
    shape, strides = (b, s, Int.of(4097)), (Int.of(4160), 4160 * b, Int.of(1))
    if swapped:
        strides = (4160 * s, Int.of(4160), Int.of(1))
    assert storage_elements(shape, strides) == 4160 * b * s
    assert has_legal_strides(Buffer("t", DType.BFLOAT16, shape), strides)
    too_small = tuple(4097 * inner if stride == 4160 * inner else stride for stride in strides)
    assert not has_legal_strides(Buffer("t", DType.BFLOAT16, shape), too_small)


@pytest.mark.parametrize(
    ("step", "expected"), [(1030, True), (1061, True), (1029, False), (1062, False)]
)
def test_gaps_are_shorter_than_a_line(step: int, expected: bool) -> None:
    buffer = Buffer("t", DType.FLOAT32, ints(4, 1030))
    assert has_legal_strides(buffer, ints(step, 1)) == expected


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_what_fits_keeps_elements_apart_and_inside(sizes: list[int], data: st.DataObject) -> None:
    buffer = Buffer("t", DType.FLOAT64, ints(*sizes))
    strides, step = [0] * len(sizes), 1
    for dim in data.draw(st.permutations(range(len(sizes)))):
        strides[dim] = step = step + data.draw(st.integers(0, 15)) * (step > 1)
        step = step * sizes[dim]
    assert has_legal_strides(buffer, ints(*strides))
    row = row_of(buffer.shape, ints(*strides))
    assert row is None or row.length < row.pitch
    points = itertools.product(*map(range, sizes))
    offsets = [int(np.dot(point, strides)) for point in points]
    assert len(set(offsets)) == len(offsets)
    assert max(offsets) < int(storage_elements(buffer.shape, ints(*strides)))


@pytest.mark.row("S:D5")
def test_an_access_stays_in_its_row() -> None:
    row = Row(1030, 1056)
    i, j = Int.of(ROWS), Int.of(COLUMNS)
    assert row.walked_by(1056 * i + j) is COLUMNS
    assert row.walked_by(1056 * (i + 7) + j) is COLUMNS


@pytest.mark.row("S:D5")
@pytest.mark.parametrize(
    "offset",
    [
        1056 * Int.of(ROWS) + Int.of(COLUMNS) + 8,
        1056 * Int.of(ROWS) + 2 * Int.of(COLUMNS),
        1030 * Int.of(ROWS) + Int.of(COLUMNS),
        1056 * Int.of(ROWS) + Int.of(Axis("j", Int.of(1029))),
        1056 * Int.of(Axis("x", Int.of(4120))) + Int.of(Axis("x", Int.of(4120))) % 1030,
        1056 * Int.of(Indirect(Load("n", ints(0), DType.INT64), Int.of(B))) + Int.of(COLUMNS),
    ],
    ids=["moved", "every second", "other rows", "a part", "flat", "by data"],
)
def test_no_other_access_goes_on_into_the_gap(offset: Int) -> None:
    assert Row(1030, 1056).walked_by(offset) is None
