"""What lowering does not name is taken apart, and nothing else."""

import torch
import torch.nn.functional as F
from torch import nn

from aotpack.trace import trace
from tests.e2e.models import Function

X = torch.randn(3, 4)


def operators(module: nn.Module, whole: frozenset[str] | None) -> list[str]:
    traced = trace(module, (X,), name="m", version="1", whole=whole)
    return [node.op for node in traced.graph.nodes]


def test_a_named_operator_stays_whole() -> None:
    module = Function(lambda x: F.huber_loss(x, x * 2), 1)
    for whole in (frozenset({"aten.huber_loss.default"}), None):
        assert "aten.huber_loss.default" in operators(module, whole)


def test_any_other_is_taken_apart() -> None:
    module = Function(lambda x: F.huber_loss(x, x * 2), 1)
    found = operators(module, frozenset({"aten.sub.Tensor", "aten.abs.default"}))
    assert "aten.huber_loss.default" not in found
    assert {"aten.sub.Tensor", "aten.abs.default"} <= set(found)


def test_complex_numbers_are_made_of_pairs_whole() -> None:
    """Of itself torch would write both parts into a new tensor."""
    made = operators(Function(lambda x: torch.view_as_real(torch.complex(x, x)), 1), frozenset())
    assert made == ["pair.complex"]
