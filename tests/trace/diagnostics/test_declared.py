"""Declared sizes are free: a package serves their whole ranges, or the build says why not."""

import pytest
import torch
from torch.export import Dim

from aotpack.errors import TraceError, UnsupportedError

A, B = Dim("a", min=2, max=6), Dim("b", min=2, max=8)
ROWS = torch.randn(4, 5)


def sizes_of(traced):
    return {one.name: (one.low, one.high) for one in traced.graph.signature.sizes}


@pytest.mark.row("S:T13")
@pytest.mark.parametrize(
    ("forward", "shapes", "sizes"),
    [
        (lambda self, x: x * 2 if x.shape[0] > 3 else x * 3, {0: 2 * A}, {"a": (2, 6)}),
        (lambda self, x: x[:, :-1] * 2, {0: 2 * A, 1: B}, {"a": (2, 6), "b": (2, 8)}),
        (lambda self, x: x * 2, {0: A, 1: A + 1}, {"a": (2, 6)}),
        (lambda self, x: x * 2, {0: Dim("a", min=3) - 1}, {"a_minus_1": (2, 2**31 - 1)}),
        (lambda self, x: x * 2, {0: A - 1, 1: A}, {"a_minus_1": (1, 5)}),
        (lambda self, x: x * 2, {0: 2 * Dim("a")}, {"a": (2, 2**31 - 1)}),
        (lambda self, x: x * 2, {0: Dim("a", min=0, max=9) + 1}, {"a": (2, 9)}),
        (lambda self, x: x * 2, {0: Dim("a", min=0, max=9)}, {"a": (1, 9)}),
    ],
)
def test_sizes_with_their_declared_ranges(trace_function, forward, shapes, sizes):
    assert sizes_of(trace_function(forward, ROWS, dynamic_shapes={"x": shapes})) == sizes


ONE = Dim("c", min=1, max=64)


@pytest.mark.row("S:T13")
@pytest.mark.parametrize(
    ("shapes", "forms"),
    [
        ({0: ONE + 1}, r"c \+ 1 is dimension 0 of argument 'xs\[0\]'"),
        ({0: 2 * ONE, 1: ONE + 3}, r"2\*c is dimension 0 of .*, c \+ 3 is dimension 1 of .*"),
    ],
)
def test_a_size_from_one_that_no_dimension_has(trace_function, shapes, forms):
    words = (
        rf"exporting m: the size c is declared from 1 on, but no dimension is c itself: {forms}\. "
        r"Of such .* 2 and more\. Declare c = Dim\('c', min=2, max=64\), or give c itself"
    )
    with pytest.raises(UnsupportedError, match=words):
        trace_function(lambda self, xs: xs[0] * 2, [ROWS], dynamic_shapes={"xs": [shapes]})


def test_a_size_from_one_that_a_dimension_has(trace_function):
    shapes = {"x": {0: ONE, 1: ONE + 1}}
    assert sizes_of(trace_function(lambda self, x: x * 2, ROWS, dynamic_shapes=shapes)) == {
        "c": (1, 64)
    }


def by_rows(self, x):
    return x * 2 if x.shape[0] > 8 else x * 3


@pytest.mark.row("S:T13")
@pytest.mark.parametrize(
    ("rows", "dim", "condition"),
    [
        (4, 2 * A, r"\(2\*a\) <= 8  \(not for a=5\)"),
        (4, 2 * Dim("a"), r"\(2\*a\) <= 8  \(not for a=5\)"),
        (6, A + 4, r"\(a \+ 4\) <= 8  \(not for a=5\)"),
        (13, 3 * A + 1, r"\(3\*a \+ 1\) > 8  \(not for a=2\)"),
    ],
)
def test_a_branch_narrows_a_derived_size(trace_function, rows, dim, condition):
    message = rf"only for sizes where\n  {condition}\n  .*\n  at test_declared.py:\d+: .* > 8 else"
    with pytest.raises(TraceError, match=message):
        trace_function(by_rows, torch.randn(rows, 3), dynamic_shapes={"x": {0: dim}})


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("shapes", [({0: 2 * A}, {0: B}), ({0: B}, {0: 2 * A})])
def test_a_size_that_follows_from_a_derived_one(trace_function, shapes):
    with pytest.raises(TraceError, match=r"== .*\(not for .*=2, .*=2\)(\n .*){2}\n  at .* == y"):
        trace_function(
            lambda self, x, y: x * 2 if x.shape[0] == y.shape[0] else x * 3,
            *(torch.randn(4, 3), torch.randn(4, 3)),
            dynamic_shapes=dict(zip("xy", shapes, strict=True)),
        )


@pytest.mark.row("S:T13")
def test_a_size_of_a_slice_that_follows_from_a_derived_one(trace_function):
    """Of more columns than rows, the slice begins at its end."""
    shapes = {"x": {0: A + 1, 1: B}}
    found = trace_function(
        lambda self, x: x[:, x.shape[0] - x.shape[1] :] * 2, ROWS, dynamic_shapes=shapes
    )
    assert str(found.graph.signature.outputs[0].shape[0]) == "a + 1"
    with pytest.raises(TraceError, match=r"\(a \+ 1\) != b  \(not for a=2, b=3\)"):
        trace_function(
            lambda self, x: x * 2 if x.shape[0] == x.shape[1] else x * 3,
            ROWS,
            dynamic_shapes=shapes,
        )


@pytest.mark.row("S:T13")
def test_a_derived_size_that_becomes_a_number(trace_function):
    message = (
        r"the size a is declared from 2 to 6, and is 2 alone in the program\. .*\n  at .*expand"
    )
    with pytest.raises(TraceError, match=message):
        trace_function(
            lambda self, x: x.mT.expand_as(x), torch.randn(8, 8), dynamic_shapes={"x": {0: 4 * A}}
        )


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("rows", ["x", "y"])
def test_two_sizes_of_one_root_have_its_range_in_any_order(trace_function, rows):
    """torch takes one of them for the symbol, and the other for an expression of it."""
    n = Dim("n", min=4, max=10)
    longer = lambda self, x, y: x[1:] + y if rows == "x" else x + y[1:]  # noqa: E731
    sizes = (n - 1, n - 2) if rows == "x" else (n - 2, n - 1)
    args = (torch.randn(5), torch.randn(4)) if rows == "x" else (torch.randn(4), torch.randn(5))
    shapes = {"x": {0: sizes[0]}, "y": {0: sizes[1]}}
    (size,) = sizes_of(trace_function(longer, *args, dynamic_shapes=shapes)).values()
    assert size[1] - size[0] == 6


@pytest.mark.row("S:T13")
def test_two_derived_sizes_of_a_dim_without_max_are_told_to_give_one(trace_function):
    def forward(self, x, y):
        return x.sum() + y

    args = torch.randn(8), torch.randn(10)
    endless, ending = Dim("a", min=3), Dim("a", min=3, max=1024)
    with pytest.raises(TraceError, match=r"declare both, as Dim\('a', min=3, max=1024\)"):
        trace_function(forward, *args, dynamic_shapes=({0: endless - 1}, {0: endless + 1}))
    shapes = {0: ending - 1}, {0: ending + 1}
    assert len(sizes_of(trace_function(forward, *args, dynamic_shapes=shapes))) == 1
