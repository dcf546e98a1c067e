"""Models of a few lines, and their kernels as text."""

import re
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from aotpack.devices import H200, Gpu
from aotpack.ir.program import Program
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.stages import Rendered
from aotpack.target import Target
from tests.schedule.programs import lowered, scheduled

H100 = (Target("cuda", 90),)
DIGEST = re.compile(r"_[0-9a-f]{8}\b")


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + y.to(x.dtype), approximate="tanh")


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1)


class Total(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1)


class First(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.topk(self.count))


class Normed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


class ColumnSum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)


class Projection(nn.Module):
    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.fc = nn.Linear(k, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.fc(x))


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids) * 2


class Collected(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, n, y)


class ConcatBuffer(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1) + 1


class Attended(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rendered(
    module: nn.Module,
    *args: torch.Tensor,
    targets: tuple[Target, ...] = H100,
    dynamic_shapes: Any = None,
) -> Rendered:
    """All kernels of a model."""
    return render(scheduled(module, *args, dynamic_shapes=dynamic_shapes), targets)


def rendered_program(
    program: Program, targets: tuple[Target, ...] = H100, gpu: Gpu = H200
) -> Rendered:
    """All kernels of a program made by hand."""
    return render(schedule(lowered(program), gpu=gpu), targets)


def kernel_text(product: Rendered) -> str:
    """The only text, without digests in names, and without comments: they name files of torch.

    Twins that are promised multiples have one text.
    """
    texts = {DIGEST.sub("", kernel.text) for kernel in product.kernels}
    assert len(texts) == 1, f"kernels: {', '.join(kernel.name for kernel in product.kernels)}"
    (text,) = texts
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("# ")]
    return "\n".join(lines) + "\n"
