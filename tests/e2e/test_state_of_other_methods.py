"""A method reads what another one writes: nothing of it is computed when weights are."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import aotpack
from aotpack import Method

D = 32
Read = Callable[["Memory", Tensor], Tensor]


class Memory(nn.Module):
    """``write`` replaces the state, of which ``read`` computes something."""

    def __init__(self, read: Read) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(D, D), nn.Linear(D, 2 * D, bias=False)
        self.attention = nn.MultiheadAttention(D, 4, batch_first=True)
        self.norm, self.conv = nn.LayerNorm(D), nn.Conv1d(D, 48, 3, padding=1)
        self.statistics = nn.BatchNorm1d(D)
        self.register_buffer("memory", torch.randn(1, 40, D))
        self.function = read

    def write(self, x: Tensor) -> Tensor:
        self.memory.copy_(x)
        self.statistics.running_mean.copy_(x.mean((0, 1)))
        return x.sum()

    def read(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def gated(x: Tensor) -> Tensor:
    return F.silu(x[..., :D]) * x[..., D:]


READS: dict[str, Read] = {
    "linear": lambda m, x: x @ m.one(m.memory).mT,
    "linear of few bytes": lambda m, x: m.one(m.memory[:, :1]) + x,
    "gate and up": lambda m, x: x + gated(m.two(m.memory)).mean(1),
    "attention": lambda m, x: m.attention(x, m.memory, m.memory, need_weights=False)[0],
    "scaled": lambda m, x: F.scaled_dot_product_attention(x, m.memory, m.one(m.memory)),
    "as a weight": lambda m, x: F.linear(x, m.memory[0, :D]),
    "merged weights": lambda m, x: F.linear(x, m.memory[0, :D]) + F.linear(x, m.one.weight),
    "right factor": lambda m, x: x @ m.memory[0, :D],
    "convolved": lambda m, x: m.conv(m.memory.mT).mean() + x,
    "filters": lambda m, x: F.conv1d(x.mT, m.memory[0, :36].reshape(36, D, 1)),
    "statistics": lambda m, x: m.statistics(x.mT),
    "folded statistics": lambda m, x: m.statistics(m.one(x).mT),
    "norm": lambda m, x: m.norm(m.memory).mean(1) + x,
    "scale": lambda m, x: m.one(F.layer_norm(x, (D,), m.memory[0, 0], m.memory[0, 1])),
    "rows": lambda m, x: m.memory[0, torch.tensor([3, 1])].exp().sum(0) + x,
    "table": lambda m, x: F.embedding(torch.tensor([3, 1]), m.memory[0]).sum(0) + x,
    "short": lambda m, x: m.memory.mean((1, 2)).exp() * x,
    "sorted": lambda m, x: m.memory.sort(1).values[:, :5].sum() + x,
    "squared": lambda m, x: (m.memory.mT @ m.memory)[0] + x.mean(),
}


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_what_was_written(read: Read, target: str) -> None:
    model = Memory(read).eval()
    model.write(torch.randn(1, 40, D))
    eager, x = copy.deepcopy(model), torch.randn(1, 20, D)
    methods = {
        "write": Method(model.write, (torch.randn(1, 40, D),)),
        "read": Method(model.read, (x,)),
    }
    package = aotpack.compile(methods, target=target)
    for _ in range(2):
        torch.testing.assert_close(package.read(x), eager.read(x), rtol=1e-4, atol=1e-4)
        new = torch.randn(1, 40, D) * 2
        package.write(new), eager.write(new)
    torch.testing.assert_close(package.read(x), eager.read(x), rtol=1e-4, atol=1e-4)
