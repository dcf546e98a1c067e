"""Attention of float64, which no matrix unit takes: by its formula, in every form."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .oracle import agree, compile_all

attention = F.scaled_dot_product_attention


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def doubles(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


Q, K, V = doubles(2, 4, 5, 8), doubles(2, 4, 7, 8), doubles(2, 4, 7, 6)
MASK = torch.rand(5, 7) > 0.4
MASK[2] = False  # a query without keys

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "plain": (attention, (Q, K, V)),
    "causal": (lambda q, k, v: attention(q, k, v, is_causal=True), (Q, K, V)),
    "mask": (attention, (Q, K, V, MASK)),
    "bias": (lambda q, k, v, b: attention(q, k, v, b, scale=0.3), (Q, K, V, doubles(5, 7))),
    "groups": (
        lambda q, k, v: attention(q, k, v, enable_gqa=True),
        (Q, doubles(2, 2, 7, 8), doubles(2, 2, 7, 6)),
    ),
    "without heads": (attention, (Q[0, 0], K[0, 0], V[0, 0])),
}


@pytest.mark.parametrize("case", CASES)
def test_forms(case: str) -> None:
    function, args = CASES[case]
    agree(compile_all(Model(function), args), args)


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_layers_of_dynamic_sizes(kind: Callable[..., nn.Module]) -> None:
    layer = kind(8, 2, 16, batch_first=True).double().eval()
    count = 1 if kind is nn.TransformerEncoderLayer else 2
    sizes = {0: Dim("b", min=1, max=8), 1: Dim("t", min=1, max=64)}
    given = (doubles(2, 5, 8),) * count
    compiled = compile_all(Model(layer), given, dynamic_shapes={"args": (sizes,) * count})
    for shape in (2, 5, 8), (1, 1, 8), (3, 17, 8):
        agree(compiled, tuple(doubles(*shape) for _ in range(count)))


def test_other_types_stay_whole() -> None:
    args = tuple(x.float() for x in (Q, K, V))
    lowered = compile_all(Model(attention), args).lowered
    kinds = [type(operation).__name__ for operation in lowered.program.operations]
    assert kinds == ["Attention"]
