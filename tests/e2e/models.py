"""Small models: layers, tiny transformers, and functions of several lines."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Function(nn.Module):
    """A function of up to four tensors as a module."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        super().__init__()
        self.function = function
        self.forward = (self._one, self._two, self._three, self._four)[count - 1]

    def _one(self, x: torch.Tensor) -> Any:
        return self.function(x)

    def _two(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)

    def _three(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return self.function(x, y, z)

    def _four(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, w: torch.Tensor) -> Any:
        return self.function(x, y, z, w)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 7))


class Rms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(24, eps=1e-6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return self.norm(total), total


class Glu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(10, 16, bias=False), nn.Linear(10, 16, bias=False)
        self.down = nn.Linear(16, 10, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.gelu(self.fc1(self.norm(x)), approximate="tanh"))


class SelfAttention(nn.Module):
    """Fused or separate projections; the heads are split and joined by views."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        q, k, v = (
            p(x).view(b, s, self.heads, width // self.heads).transpose(1, 2)
            for p in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, s, width))


class Block(nn.Module):
    """A BERT layer: attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.attention, self.norm1 = SelfAttention(width, 2), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(self.attention(x))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Weighted(nn.Module):
    """Returns an input, a weight, a result twice and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.weight
        return {"x": x, "weight": self.weight, "y": y, "again": y, "total": (y * y).sum()}


class Tokens(nn.Module):
    """Embedding with a tied output projection and log-softmax over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(23, 16), nn.Embedding(32, 16)
        self.head = nn.Linear(16, 23, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(x).log_softmax(-1)


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False)


class MaskedBert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bert = bert()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        config = GPT2Config(
            vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2, use_cache=False
        )
        self.gpt2 = GPT2Model(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.gpt2(input_ids=ids, use_cache=False).last_hidden_state


# --- functions of several lines -----------------------------------------------------------------


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = torch.cat([x, y.flip(1), F.pad(x, (1, 2), value=3.0)], dim=1)
    return both[:, 1:-1:2].roll(2, 1) * 2 + 1


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x.chunk(2, -1)
    return a * b, (a + b).sum(0), a.amax(1), b.mean()


def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    deviation, mean = torch.std_mean(x, -1)
    return x.var(0), x.var((0, 1), correction=0), deviation, mean


def integers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    bits = (x & y) | (x ^ 3), ~x, x << 1, x >> 1
    return *bits, x * y - 5, x // 3, x % 4, torch.div(x, 3, rounding_mode="trunc"), x.abs().sum()


def predicates(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x > 0, y <= x
    return a & b, a | ~b, a ^ b, torch.where(a, x, y * 2), a.any(-1), b.all(0), a.sum(), a.all()


def masked_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
