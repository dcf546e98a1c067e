"""Attention in the manner of diffusion models: of an image to itself, and to a text."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

HEAD = 64


class CrossAttention(nn.Module):
    """Attention of ``x`` to ``other``."""

    def __init__(self, width: int, other: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(other, width, bias=False)
        self.value = nn.Linear(other, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part.unflatten(-1, (-1, HEAD)).transpose(1, 2)
            for part in (self.query(x), self.key(other), self.value(other))
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class TransformerBlock(nn.Module):
    """Attention to itself, attention to a text, a gated unit."""

    def __init__(self, width: int, text: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = CrossAttention(width, width), CrossAttention(width, text)
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        first, second, third = self.norms
        normed = first(x)
        x = x + self.own(normed, normed)
        x = x + self.cross(second(x), text)
        value, gate = self.wide(third(x)).chunk(2, -1)
        return x + self.narrow(value * F.gelu(gate))  # type: ignore[no-any-return]


class SpatialTransformer(nn.Module):
    """Blocks over the pixels of an image."""

    def __init__(self, width: int, text: int, blocks: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width, eps=1e-6)
        self.into, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, text) for _ in range(blocks))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x = self.into(self.norm(image).flatten(2).transpose(1, 2))
        for block in self.blocks:
            x = block(x, text)
        return image + self.out(x).transpose(1, 2).unflatten(2, image.shape[2:])
