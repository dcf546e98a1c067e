"""Views by strides of dynamic sizes: inside for each of them, or refused."""

import pytest
import torch
from torch.export import Dim

from aotpack.errors import TraceError

X = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
ROWS, COLUMNS = Dim("rows", min=1, max=4096), Dim("columns", min=1)
SQUARE = Dim("side", min=1)


def transposed(self, x):
    return x.relu().as_strided((x.shape[1], x.shape[0]), (1, x.shape[1]))


def diagonal(self, x):
    return x.as_strided((x.shape[0],), (x.shape[0] + 1,))


def middle(self, x):
    return x.as_strided((1,), (1,), x.numel() - 1 - x.shape[0] // 3)


def first(self, x):
    return x.as_strided((2, 4), (4, 1))


def scattered(self, x):
    return x.as_strided_scatter(x.new_ones(2, 4), (2, 4), (4, 1))


INSIDE = {
    "transposed": (transposed, (ROWS, COLUMNS)),
    "the diagonal": (diagonal, (SQUARE, SQUARE)),
    "the middle": (middle, (ROWS, None)),
    "the first": (first, (Dim("rows", min=2), None)),
    "written": (scattered, (Dim("rows", min=2), None)),
}
OUTSIDE = {
    "transposed": (
        lambda self, x: x.as_strided((x.shape[1], x.shape[0]), (1, x.shape[0])),
        (ROWS, Dim("columns", min=1, max=9)),
        "addresses element 16773120 of 4096, where columns=1, rows=4096",
    ),
    "the diagonal": (diagonal, (ROWS, COLUMNS), "element 16777215 of 4096, where .*columns=1"),
    "behind": (
        lambda self, x: x.as_strided((1,), (1,), 5 + x.shape[0] // 3),
        (ROWS, None),
        "element 5 of 5, where rows=1",
    ),
    "the first": (first, (ROWS, None), "element 7 of 5, where rows=1"),
    "written": (scattered, (ROWS, None), "element 7 of 5, where rows=1"),
    "a square": (
        lambda self, x: x.as_strided((1,), (1,), x.shape[0] * x.shape[0] % 25),
        (ROWS, None),
        "may leave its tensor: behind the last element .* narrower ranges",
    ),
}


def shapes(dims):
    return {"x": {axis: dim for axis, dim in enumerate(dims) if dim is not None}}


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "dims"), INSIDE.values(), ids=INSIDE)
def test_views_that_stay_inside(trace_function, forward, dims):
    assert trace_function(forward, X, dynamic_shapes=shapes(dims))


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "dims", "words"), OUTSIDE.values(), ids=OUTSIDE)
def test_views_that_leave_their_tensor(trace_function, forward, dims, words):
    with pytest.raises(TraceError, match=words):
        trace_function(forward, X, dynamic_shapes=shapes(dims))
