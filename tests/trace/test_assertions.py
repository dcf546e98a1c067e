"""Assertions on data are left out with a warning; others without one."""

import warnings

import pytest
import torch
from torch.export import Dim

X = torch.rand(4, 3)


def on_a_tensor(self, x):
    torch._assert_async((x > 0).all(), "not positive")
    return x + 1


def on_a_number(self, x):
    torch._check((x > 0).sum().item() > 2)
    return x + 1


def on_a_size(self, x):
    torch._check(x.shape[0] > 1)
    return x + 1


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize(
    ("forward", "words"), [(on_a_tensor, "not positive"), (on_a_number, r"expression .*u0")]
)
def test_assertions_on_data_are_named(trace_function, forward, words):
    with pytest.warns(UserWarning, match=rf"not checked by a package(.|\n)*{words}"):
        graph = trace_function(forward, X).graph
    assert [node.op for node in graph.nodes] == ["aten.add.Tensor"]


def test_others_are_not(trace_function):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        spec = {"x": {0: Dim("b", min=2, max=9)}}
        trace_function(on_a_size, X, dynamic_shapes=spec)
