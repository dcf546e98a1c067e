"""Batched products to measure: factors that are transposed, strided, expanded or of odd sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import nn

Tensors = tuple[torch.Tensor, ...]
Shape = tuple[int, ...]
Function = Callable[..., torch.Tensor]


class Batched(nn.Module):
    """A function of two factors, without weights."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.function(a, b)

    def exact(self, *factors: torch.Tensor) -> torch.Tensor:
        """The result in float64."""
        return self.function(*(factor.double() for factor in factors))


@dataclass(frozen=True, slots=True)
class BatchedCase:
    """A function of factors of two shapes; torch runs the same function."""

    name: str
    a: Shape
    b: Shape
    function: Function

    @property
    def elements(self) -> int:
        """Those of both factors and the result."""
        with torch.device("meta"):
            made = self.function(torch.empty(self.a), torch.empty(self.b))
        return prod(self.a) + prod(self.b) + made.numel()

    def module(self, dtype: torch.dtype) -> Batched:
        return Batched(self.function)

    def unfilled(self, dtype: torch.dtype) -> Batched:
        return Batched(self.function)

    def inputs(self, dtype: torch.dtype, device: str) -> Tensors:
        """Results have about the size of their factors."""
        a, b = (torch.randn(shape, dtype=dtype, device=device) for shape in (self.a, self.b))
        return a * self.a[-1] ** -0.5, b

    def peer(self, module: nn.Module, factors: Tensors) -> torch.Tensor:
        found: torch.Tensor = module(*factors)
        return found


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2)


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.mT


def _scores_of_views(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return _heads(q) @ _heads(k).mT


def _context_of_views(p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return p @ _heads(v)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def _positions(q: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Queries of each head with a table of positions that all sequences share."""
    heads = table.view(table.shape[0], q.shape[2], q.shape[3]).permute(1, 2, 0)
    return _heads(q) @ heads.expand(q.shape[0], -1, -1, -1)


def _left_transposed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.mT @ b


def _both_transposed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.mT @ b.mT


def _along_height(q: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bhwc,hkc->bhwk", q, table)


CASES = (
    BatchedCase("scores", (8, 12, 128, 64), (8, 12, 128, 64), _scores),
    BatchedCase("scores of views", (8, 128, 12, 64), (8, 128, 12, 64), _scores_of_views),
    BatchedCase("context of views", (8, 12, 128, 128), (8, 128, 12, 64), _context_of_views),
    BatchedCase("positions", (8, 128, 12, 64), (512, 768), _positions),
    BatchedCase("long scores", (4, 16, 1024, 128), (4, 16, 1024, 128), _scores),
    BatchedCase("long context", (4, 16, 1024, 1024), (4, 16, 1024, 64), _product),
    BatchedCase("scores of 197", (8, 12, 197, 64), (8, 12, 197, 64), _scores),
    BatchedCase("context of 197", (8, 12, 197, 197), (8, 197, 12, 64), _context_of_views),
    BatchedCase("scores of windows", (256, 3, 49, 32), (256, 3, 49, 32), _scores),
    BatchedCase("context of windows", (256, 3, 49, 49), (256, 3, 49, 32), _product),
    BatchedCase("heads of 40", (2, 8, 4096, 40), (2, 8, 77, 40), _scores),
    BatchedCase("heads of 80", (16, 257, 16, 80), (16, 257, 16, 80), _scores_of_views),
    BatchedCase("rows by one factor", (64, 196, 256), (256, 1024), _product),
    BatchedCase("columns by one factor", (384, 196), (64, 196, 512), _product),
    BatchedCase("left transposed", (64, 1024, 128), (64, 1024, 64), _left_transposed),
    BatchedCase("both transposed", (32, 512, 256), (32, 384, 512), _both_transposed),
    BatchedCase("long sums", (48, 64, 4096), (48, 4096, 64), _product),
    BatchedCase("experts", (8, 256, 1024), (8, 1024, 4096), _product),
    BatchedCase("experts by rows", (8, 128, 2048), (8, 4096, 2048), _scores),
    BatchedCase("along the height", (100, 14, 14, 80), (14, 14, 80), _along_height),
)


def batched_cases() -> Iterator[BatchedCase]:
    """The cases of the group ``bmm``."""
    yield from CASES
