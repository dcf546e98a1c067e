"""Choosing tokens inside the package: greedy, temperature, top-k and top-p, from a seed.

A token depends on its row's logits, seed and position alone: not on the rest of the batch.
"""

import torch

WORD = 0xFFFFFFFF
KEYS = ("temperature", "top_k", "top_p", "seed")


def sample(
    logits: torch.Tensor,
    positions: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
) -> torch.Tensor:
    """The next token of each row, (rows, vocabulary) -> (rows,).

    Temperature 0 is greedy; ``top_k`` 0 and ``top_p`` 1 keep all tokens.
    """
    warm = temperature > 0
    scaled = logits / torch.where(warm, temperature, 1.0)[:, None]
    narrow = warm & ((top_k > 0) | (top_p < 1))
    least = torch.cond(narrow.any(), thresholds, no_thresholds, (scaled, top_k, top_p))
    kept = torch.where(scaled >= least[:, None], scaled, -torch.inf)
    noise = torch.where(warm[:, None], gumbel(seed, positions, logits.shape[1]), 0.0)
    return (kept + noise).argmax(dim=1)


def thresholds(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The least logit that each row keeps: of the ``top_k`` largest, those that reach ``top_p``."""
    ordered = logits.sort(dim=1, descending=True).values
    ranks = torch.arange(logits.shape[1])
    inside = (ranks < top_k[:, None]) | (top_k[:, None] <= 0)
    odds = torch.where(inside, ordered, -torch.inf).softmax(dim=1)
    before = odds.cumsum(dim=1) - odds
    kept = inside & ((before < top_p[:, None]) | (ranks == 0) | (top_p[:, None] >= 1))
    return torch.where(kept, ordered, torch.inf).amin(dim=1)


def no_thresholds(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Every token is kept."""
    return torch.full_like(logits[:, 0], -torch.inf)


def gumbel(seed: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """Gumbel noise: the largest sum of it and logits is a draw from their softmax."""
    rows = mixed(mixed(seed & WORD) + positions)
    bits = mixed(mixed(rows[:, None] + torch.arange(count)) + rows[:, None])
    uniform = ((bits >> 9).float() + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform))


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Each bit of 32 depends on all of them: the last step of MurmurHash3."""
    x = x & WORD
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & WORD
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & WORD
    return x ^ (x >> 16)
