"""Matrix products to measure: those of language models, by groups of row counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Activation = Callable[[torch.Tensor], torch.Tensor]
NK = tuple[int, int]

BERT: tuple[NK, ...] = ((768, 768), (2304, 768), (3072, 768), (768, 3072))
LLAMA_1B: tuple[NK, ...] = ((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192))
LLAMA_8B: tuple[NK, ...] = ((6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336))
LLAMA_70B: tuple[NK, ...] = ((10240, 8192), (8192, 28672))
MIXTRAL: tuple[NK, ...] = ((28672, 4096), (32000, 4096))
LOGITS: tuple[NK, ...] = ((128256, 2048),)
ALL = (*BERT, *LLAMA_1B, *LLAMA_8B, *LLAMA_70B, *MIXTRAL)
LARGE = (*BERT, *LLAMA_1B, *LLAMA_8B)
GROUPS: dict[str, tuple[tuple[int, tuple[NK, ...]], ...]] = {
    "one": ((1, (*ALL, *LOGITS)),),
    "few": ((2, LLAMA_1B), (4, LLAMA_8B[2:]), (8, LLAMA_1B), (16, (*ALL[4:], *BERT[1:3]))),
    "some": ((64, (BERT[2], LLAMA_1B[2], LLAMA_8B[3])), (128, (*BERT, *LLAMA_1B, *LLAMA_8B[2:]))),
    "many": ((512, LARGE), (4096, (*BERT, *LLAMA_1B[1:], *LLAMA_8B[1:]))),
    "most": ((16384, (BERT[1], BERT[3], (4096, 1024), LLAMA_8B[1])),),
}
ACTIVATIONS: dict[str, Activation] = {"gelu": F.gelu, "silu": F.silu}


class Product(nn.Module):
    """A product with its bias and an activation; ``weight`` is [n, k] as a linear layer has it."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, activation: str) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(F.linear(x, self.weight, self.bias))

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        """The result in float64."""
        return self.activation(F.linear(x.double(), self.weight.double(), self.bias.double()))


@dataclass(frozen=True, slots=True)
class Case:
    """A product of [m, k] and [k, n]."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def elements(self) -> int:
        """Those of both factors and the result."""
        return self.n * self.k + self.m * (self.n + self.k)

    def module(self, dtype: torch.dtype) -> Product:
        """On the GPU; results have a variance of one."""
        weight = torch.randn(self.n, self.k, dtype=dtype, device="cuda") * self.k**-0.5
        bias = torch.randn(self.n, dtype=dtype, device="cuda")
        return Product(weight, bias, self._activation)

    def unfilled(self, dtype: torch.dtype) -> Product:
        """On the host, to be packaged without weights."""
        weight, bias = torch.empty(self.n, self.k, dtype=dtype), torch.empty(self.n, dtype=dtype)
        return Product(weight, bias, self._activation)

    def inputs(self, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
        return (torch.randn(self.m, self.k, dtype=dtype, device=device),)

    def peer(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The product alone."""
        return torch.matmul(*inputs, module.get_parameter("weight").t())

    @property
    def _activation(self) -> str:
        return "gelu" if (self.n, self.k) in BERT else "silu"


def cases_of(group: str) -> Iterator[Case]:
    """The cases of a group."""
    for rows, sides in GROUPS[group]:
        for n, k in sides:
            yield Case(rows, n, k)
