"""Decoders that make one token for each sequence, from a static cache that is part of the module.

The sizes are those of published models; weights are random.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

CACHE = 2048  # tokens


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """``shared`` heads have keys and values, ``head`` elements each."""

    width: int
    heads: int
    shared: int
    head: int
    wide: int
    layers: int
    vocabulary: int
    norms_heads: bool = False


LLAMA_1B = DecoderSizes(2048, 32, 8, 64, 8192, 16, 128256)
LLAMA_8B_LAYERS = DecoderSizes(4096, 32, 8, 128, 14336, 4, 128256)  # 4 of its 32 layers
QWEN3 = DecoderSizes(1024, 16, 8, 128, 3072, 28, 151936, norms_heads=True)  # 0.6B


class RootMeanSquareNorm(nn.Module):
    """In float32, as decoders have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


class DecoderLayer(nn.Module):
    """Attention of one token to a cache of its predecessors, and a gated linear unit."""

    def __init__(self, sizes: DecoderSizes, batch: int) -> None:
        super().__init__()
        self.head, width = sizes.head, sizes.width
        self.norm, self.second_norm = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.query = nn.Linear(width, sizes.heads * self.head, bias=False)
        self.key = nn.Linear(width, sizes.shared * self.head, bias=False)
        self.value = nn.Linear(width, sizes.shared * self.head, bias=False)
        self.query_norm, self.key_norm = (
            RootMeanSquareNorm(self.head) if sizes.norms_heads else nn.Identity() for _ in range(2)
        )
        self.out = nn.Linear(sizes.heads * self.head, width, bias=False)
        self.gate = nn.Linear(width, sizes.wide, bias=False)
        self.up = nn.Linear(width, sizes.wide, bias=False)
        self.down = nn.Linear(sizes.wide, width, bias=False)
        cache = (batch, sizes.shared, CACHE, self.head)
        self.register_buffer("keys", torch.zeros(cache))
        self.register_buffer("values", torch.zeros(cache))

    def forward(
        self, x: torch.Tensor, at: torch.Tensor, turn: tuple[torch.Tensor, ...], mask: torch.Tensor
    ) -> torch.Tensor:
        normed = self.norm(x)
        query, key, value = (
            linear(normed).unflatten(-1, (-1, self.head))
            for linear in (self.query, self.key, self.value)
        )
        query, key = self.query_norm(query).transpose(1, 2), self.key_norm(key).transpose(1, 2)
        self.keys.index_copy_(2, at, _turned(key, turn))  # type: ignore[operator]
        self.values.index_copy_(2, at, value.transpose(1, 2))  # type: ignore[operator]
        mixed = F.scaled_dot_product_attention(
            _turned(query, turn), self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.second_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def _turned(x: torch.Tensor, turn: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Rotary positions."""
    cosine, sine = turn
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


class Decoder(nn.Module):
    """All layers, and the logits of the last token."""

    def __init__(self, sizes: DecoderSizes, batch: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.layers = nn.ModuleList(DecoderLayer(sizes, batch) for _ in range(sizes.layers))
        self.norm = RootMeanSquareNorm(sizes.width)
        rates = 500000.0 ** (-torch.arange(0, sizes.head, 2) / sizes.head)
        self.register_buffer("rates", rates)

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token)
        angles = at.float()[:, None] * self.rates.float()  # type: ignore[operator]
        angles = torch.cat((angles, angles), -1)
        turn = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        mask = (torch.arange(CACHE, device=at.device) <= at[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, at, turn, mask)
        return F.linear(self.norm(x[:, -1]), self.embedding.weight)
