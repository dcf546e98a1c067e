"""Symbolic sizes become Ints in the user's names."""

import pytest
import torch
from torch.export import Dim

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import LARGEST_SIZE

N = Dim("s", min=2, max=64)
X = {"x": {0: N}}


@pytest.mark.parametrize(
    ("forward", "spec", "shapes"),
    [
        (lambda self, x: x + 1, X, ["s, 4"]),
        (lambda self, x: x + 1, {"x": {0: 2 * N}}, ["2*s, 4"]),
        (lambda self, x: x + 1, {"x": {0: 2 * N - 2}}, ["2*s - 2, 4"]),
        (lambda self, x: x.reshape(-1), X, ["4*s"]),
        (lambda self, x: x.new_zeros(x.shape[0] // 2 + 1), X, ["(s//2) + 1"]),
        (lambda self, x: x.new_zeros(2 * x.shape[0] - 1), X, ["2*s - 1"]),
        (lambda self, x: x.new_zeros(max(x.shape[0], 8)), X, ["max(8, s)"]),
        (lambda self, x: x.new_zeros(min(x.shape[0], 8)), X, ["min(8, s)"]),
        (lambda self, x: x.new_zeros(x.shape[0] ** 2), X, ["s*s"]),
        (lambda self, x: x.new_zeros(2 + x.shape[0] % 3), X, ["(s%3) + 2"]),
        (lambda self, x: x + 1, {"x": {0: Dim.AUTO}}, ["x_size0, 4"]),
        (lambda self, x: x + 1, None, ["6, 4"]),
    ],
)
def test_shapes(trace_function, forward, spec, shapes):
    signature = trace_function(forward, torch.randn(6, 4), dynamic_shapes=spec).graph.signature
    assert [", ".join(map(str, output.shape)) for output in signature.outputs] == shapes


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        (Dim("n", min=1, max=9), 1, 9),
        (Dim("n", max=9), 1, 9),
        (Dim("n", min=3), 3, LARGEST_SIZE),
        (Dim.DYNAMIC(min=4, max=8), 4, 8),
    ],
)
def test_ranges(trace_function, dim, low, high):
    traced = trace_function(lambda self, x: x + 1, torch.randn(6), dynamic_shapes={"x": {0: dim}})
    (size,) = traced.graph.signature.sizes
    assert (size.low, size.high) == (low, high)


@pytest.mark.parametrize(
    ("dim", "message"),
    [
        (Dim("n", max=2**40), f"n is declared up to {2**40}; sizes up to 2147483647 are accepted"),
        (
            2 * Dim("n", min=1, max=9),
            r"n is declared from 1 on, .* 2 and more.*Declare n = Dim\('n', min=2, max=9\)",
        ),
    ],
)
def test_a_declared_range_is_not_narrowed_silently(trace_function, dim, message):
    with pytest.raises(UnsupportedError, match=message):
        trace_function(lambda self, x: x + 1, torch.randn(6), dynamic_shapes={"x": {0: dim}})


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [(2 * Dim("n", min=2, max=9), 2, 9), (2 * Dim("n"), 2, LARGEST_SIZE)],
)
def test_a_range_that_was_not_declared_may_be_narrower(trace_function, dim, low, high):
    traced = trace_function(lambda self, x: x + 1, torch.randn(6), dynamic_shapes={"x": {0: dim}})
    (size,) = traced.graph.signature.sizes
    assert (size.low, size.high) == (low, min(high, size.high))


@pytest.mark.parametrize(("reserved", "name"), [(("lambda",), "lambda_"), ((), "lambda")])
def test_a_reserved_name(trace_function, reserved, name):
    shapes = {"x": {0: Dim("lambda", max=9)}}
    traced = trace_function(
        lambda self, x: x + 1, torch.randn(6), dynamic_shapes=shapes, reserved=reserved
    )
    assert [size.name for size in traced.graph.signature.sizes] == [name]


@pytest.mark.row("C:D4", "S:A13")
@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            lambda self, x: torch.cond(
                x.sum() > 0, lambda x: x.nonzero().sum(), lambda x: x.long().sum(), (x,)
            ),
            r"aten.nonzero.default: a size \(u\d+\) depends on the data",
        ),
        (
            lambda self, x: x * (x.shape[0] ** x.shape[0]),
            r"a size has the power \w+, another size; accepted are powers that are constant",
        ),
        (
            lambda self, x: (x, {"n": x.shape[0] * 2}),
            r"number that depends on a size \(\[1\]\[\'n\'\]\).*torch.full\(\(\), n\), and return",
        ),
        (
            lambda self, x: (x, x[x > 0].shape[0] + 1),
            r"number that depends on a size which the data decide \(\[1\]\).* and return that",
        ),
        (lambda self, x: (x, x.shape[0] > 2), r"depends on a size .*torch.full.* and compare that"),
    ],
)
def test_refuses(trace_function, forward, message):
    with pytest.raises(UnsupportedError, match=message):
        trace_function(forward, torch.randn(6), dynamic_shapes=X)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: (x, torch.full((), x.numel())),
        lambda self, x: (x, torch.full((), x[x > 0].shape[0])),
        lambda self, x: (x, torch.full((), x.shape[0]) > 2),
    ],
)
def test_a_tensor_of_a_size_is_returned(trace_function, forward):
    traced = trace_function(forward, torch.randn(6), dynamic_shapes=X)
    assert traced.graph.signature.outputs[1].shape == ()
