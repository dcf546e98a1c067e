"""Conditions on sizes beyond ranges: accepted when every admitted size keeps them."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from aotpack.trace import trace

AUTO = {0: Dim.AUTO}


@pytest.mark.row("S:T13", "S:A8")
def test_equal_sizes_are_one_size(trace_function):
    traced = trace_function(
        lambda self, xs, y: xs[0] + xs[1] * y,
        [torch.randn(6), torch.randn(6)],
        kwargs={"y": torch.randn(6)},
        dynamic_shapes={"xs": [AUTO, AUTO], "y": AUTO},
    )
    assert len(traced.graph.signature.sizes) == 1


@pytest.mark.row("S:T13", "S:H26")
@pytest.mark.parametrize(
    ("forward", "spec", "message"),
    [
        (
            lambda self, x: x.view(-1, 4, 2),
            AUTO,
            r"dimension 0 of argument 'x', is a multiple of 2.*: \(\(4\*x_size0\) % 8\) == 0",
        ),
        (
            lambda self, x: x.view(x.shape[0] // 2, 8),
            {0: Dim("n", max=64)},
            r"n, dimension 0 of .*, is a multiple of 2, as view asks: n ==",
        ),
        (
            lambda self, x: x.view(8, 4),
            {0: Dim("n", max=64)},
            r"\n  n is 8\n  at .*x.view\(8, 4\)",
        ),
    ],
)
def test_refuses(trace_function, forward, spec, message):
    with pytest.raises(TraceError, match=message):
        trace_function(forward, torch.randn(8, 4), dynamic_shapes={"x": spec})


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("low", [1, 2])
def test_a_derived_size_is_an_operand(low):
    """torch.export takes a slice of one element for one that broadcasts."""

    class Added(nn.Module):
        def forward(self, x, y):
            return x + y[1::2]

    n = Dim("n", min=low, max=64)
    shapes = {"x": {0: n}, "y": {0: 2 * n + 1}}
    model = Added()
    package = aotpack.compile(
        model, (torch.randn(5), torch.randn(11)), dynamic_shapes=shapes, target="cpu"
    )
    for size in (low, 2, 3, 64):
        x, y = torch.randn(size), torch.randn(2 * size + 1)
        torch.testing.assert_close(package(x, y), model(x, y))


@pytest.mark.row("S:A13")
@pytest.mark.parametrize("low", [1, 2])
def test_a_size_that_would_be_negative(trace_function, low):
    """torch.export that takes a size for 2 or more is done again; saved programs are final."""

    def forward(self, x):
        return torch.cat([x, x], 0).repeat_interleave(2, 0)[5:]

    spec = {"x": {0: Dim("b", min=low, max=16)}}
    assert trace_function(forward, torch.randn(3), dynamic_shapes=spec)
    if low == 1:
        model = type("Model", (torch.nn.Module,), {"forward": forward})()
        saved = torch.export.export(model, (torch.randn(3),), dynamic_shapes=spec)
        with pytest.raises(TraceError, match=r"the size 4\*\w+ - 5, which is negative for \w+=1"):
            trace(saved, (torch.randn(3),), name="m", version="1")


SQUEEZES = {
    "all": lambda self, x: x.squeeze(),
    "first": lambda self, x: x.squeeze(0),
    "both": lambda self, x: x.squeeze((0, 1)),
    "product": lambda self, x: (x + 1).reshape(-1).squeeze(-1),
}


@pytest.mark.row("S:A13")
@pytest.mark.parametrize("low", [1, 2])
@pytest.mark.parametrize("name", SQUEEZES)
def test_a_squeeze_of_a_dimension_that_may_be_one(trace_function, name, low):
    spec = {"x": {0: Dim("b", min=low, max=16)}}
    if low == 2:
        assert trace_function(SQUEEZES[name], torch.randn(3, 1), dynamic_shapes=spec)
        return
    with pytest.raises(TraceError, match=r"removes a dimension of size b only where that is 1"):
        trace_function(SQUEEZES[name], torch.randn(3, 1), dynamic_shapes=spec)


def test_a_squeeze_of_other_dimensions(trace_function):
    spec = {"x": {0: Dim("b", min=1, max=16)}}
    forward = lambda self, x: x.squeeze(1) + x.squeeze(-1)  # noqa: E731
    graph = trace_function(forward, torch.randn(3, 1), dynamic_shapes=spec).graph
    assert str(graph.signature.outputs[0].shape[0]) == "b"


def test_the_smaller_of_two_sizes_is_not_asked_for(trace_function):
    def forward(self, x, y):
        return x[: torch.sym_min(x.shape[0], y.shape[0])] * 1

    shapes = {0: Dim("a", min=2, max=50)}, {0: Dim("b", min=2, max=50)}
    for rows, others in ((6, 9), (9, 6)):
        given = torch.randn(rows, 4), torch.randn(others, 4)
        (result,) = trace_function(forward, *given, dynamic_shapes=shapes).graph.signature.outputs
        assert str(result.shape[0]) == "min(a, b)"
