"""What lowering does not name is taken apart, and nothing else."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.errors import UnsupportedError
from aotpack.trace import trace
from tests.e2e.models import Function

X = torch.randn(3, 4)


def operators(module: nn.Module, whole: set[str] | None) -> list[str]:
    traced = trace(module, (X,), name="m", version="1", whole=whole)
    return [node.op for node in traced.graph.nodes]


def test_a_named_operator_stays_whole() -> None:
    module = Function(lambda x: F.huber_loss(x, x * 2), 1)
    for whole in ({"aten.huber_loss.default"}, None):
        assert "aten.huber_loss.default" in operators(module, whole)


def test_any_other_is_taken_apart() -> None:
    module = Function(lambda x: F.huber_loss(x, x * 2), 1)
    found = operators(module, {"aten.sub.Tensor", "aten.abs.default"})
    assert "aten.huber_loss.default" not in found
    assert {"aten.sub.Tensor", "aten.abs.default"} <= set(found)


def test_complex_numbers_are_refused_by_the_operator_that_makes_them() -> None:
    with pytest.raises(UnsupportedError, match=r"aten.complex.default: a result has .*complex64"):
        operators(Function(lambda x: torch.complex(x, x).real, 1), set())
