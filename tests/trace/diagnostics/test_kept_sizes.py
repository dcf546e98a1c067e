"""Dynamic sizes that torch fixes where it removes mutation."""

import pytest
import torch
from torch.export import Dim

from aotpack.errors import UnsupportedError

DYNAMIC = ({1: Dim("length", min=2, max=64)},)


def of_a_row(self, x):
    y = x.clone()
    torch.ops.aten.unbind.int(y, 0)[1].add_(1)
    return y


def of_a_slice(self, x):
    y = x.clone()
    y[:, 1:].add_(1)
    return y


def test_a_size_that_is_fixed_is_refused(trace_function):
    with pytest.raises(UnsupportedError, match=r"dimension 1 of argument 'x' is dynamic") as raised:
        trace_function(of_a_row, torch.randn(2, 8), dynamic_shapes=DYNAMIC)
    assert "unbind.int(y, 0)[1].add_(1)" in str(raised.value) and "size 8 alone" in str(
        raised.value
    )


def of_eight(self, x):
    y = x.clone()
    y.add_(torch.ones(8))
    return y


def test_an_automatic_size_that_export_fixes_is_accepted(trace_function):
    sizes = {0: Dim.AUTO, 1: Dim.AUTO}
    traced = trace_function(of_eight, torch.randn(3, 8), dynamic_shapes=(sizes,))
    (given,) = traced.graph.signature.inputs
    assert [str(size) for size in given.shape] == ["x_size0", "8"]


def test_it_is_built_for_one_size(trace_function):
    (given,) = trace_function(of_a_row, torch.randn(2, 8)).graph.signature.inputs
    assert [str(size) for size in given.shape] == ["2", "8"]


def test_a_size_that_is_kept_is_dynamic(trace_function):
    traced = trace_function(of_a_slice, torch.randn(2, 8), dynamic_shapes=DYNAMIC)
    (given,) = traced.graph.signature.inputs
    assert [str(size) for size in given.shape] == ["2", "length"]
