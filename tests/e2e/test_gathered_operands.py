"""Operands whose rows, columns, channels or batches lie where data say, in all kinds of kernels."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .oracle import agree, compile_all

pytestmark = pytest.mark.usefixtures("for_this_processor")

GENERATOR = torch.Generator().manual_seed(0)
Function = Callable[..., torch.Tensor]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR)


PRODUCTS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "rows": (lambda i, j, x, w: x[j] @ w, (floats(20, 64), floats(64, 32))),
    "few rows": (lambda i, j, x, w: x[i] @ w, (floats(20, 64), floats(64, 32))),
    "packed rows": (lambda i, j, x, w: w @ x[j].t(), (floats(20, 64), floats(40, 64))),
    "depth": (lambda i, j, x, w: x @ w[j], (floats(30, 100), floats(20, 64))),
    "columns": (lambda i, j, x, w: x @ w[:, j], (floats(30, 64), floats(64, 20))),
    "left batch": (lambda i, j, x, w: x[i] @ w, (floats(20, 33, 16), floats(20, 16, 24))),
    "right batch": (lambda i, j, x, w: x @ w[i], (floats(20, 33, 16), floats(20, 16, 24))),
    "inner rows": (lambda i, j, x, w: x[:, i] @ w, (floats(7, 20, 16), floats(16, 24))),
    "padded": (lambda i, j, x, w: F.pad(x[:, i], (2, 3)) @ w, (floats(90, 20), floats(25, 8))),
    "joined": (lambda i, j, x, w: torch.cat([x[i], x]) @ w, (floats(20, 20), floats(20, 9))),
    "triangle": (
        lambda i, j, x, w: torch.where(torch.arange(20)[:, None] >= i, x, 0.0) @ w,
        (floats(20, 20), floats(20, 9)),
    ),
}
WINDOWS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "images": (lambda i, j, x, w: F.conv2d(x[i], w), (floats(20, 4, 9, 9), floats(8, 4, 3, 3))),
    "channels": (
        lambda i, j, x, w: F.conv2d(x[:, i], w, padding=1),
        (floats(2, 20, 9, 9), floats(8, 20, 3, 3)),
    ),
    "columns": (
        lambda i, j, x, w: F.conv2d(x[..., i], w, padding=1),
        (floats(2, 4, 9, 20), floats(8, 4, 3, 3)),
    ),
    "filters": (
        lambda i, j, x, w: F.conv2d(x, w[i], padding=1),
        (floats(2, 4, 9, 9), floats(20, 4, 3, 3)),
    ),
    "depthwise channels": (
        lambda i, j, x, w: F.conv2d(x[:, i], w, padding=1, groups=20),
        (floats(2, 20, 9, 70), floats(20, 1, 3, 3)),
    ),
    "depthwise filters": (
        lambda i, j, x, w: F.conv2d(x, w[i], padding=1, groups=20),
        (floats(2, 20, 9, 70), floats(20, 1, 3, 3)),
    ),
    "pooled": (lambda i, j, x: F.max_pool2d(x[..., i], 3, 1, 1), (floats(2, 3, 9, 20),)),
}
ROWS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "keys": (
        lambda i, j, q, k: F.scaled_dot_product_attention(q, k[:, :, i], k[:, :, i]),
        (floats(1, 2, 33, 16), floats(1, 2, 20, 16)),
    ),
    "queries": (
        lambda i, j, q, k: F.scaled_dot_product_attention(q[:, :, i], k, k),
        (floats(1, 2, 20, 16), floats(1, 2, 33, 16)),
    ),
    "bias": (
        lambda i, j, q, b: F.scaled_dot_product_attention(q, q, q, attn_mask=b[i][:, i]),
        (floats(1, 2, 20, 16), floats(20, 20)),
    ),
    "sums": (lambda i, j, x: x[i].sum(0) + x[:, i].sum(1), (floats(20, 20),)),
    "softmax": (lambda i, j, x: x[:, i].softmax(-1), (floats(30, 20),)),
    "sorted": (lambda i, j, x: x[i].sort(-1).values, (floats(20, 30),)),
    "chosen": (
        lambda i, j, x: torch.where(torch.arange(20) < i, x[i], x[torch.arange(20)]),
        (floats(20),),
    ),
}


class Table(nn.Module):
    """All functions of a table, each on operands of its own and the same two sets of places."""

    def __init__(self, table: dict[str, tuple[Function, tuple[torch.Tensor, ...]]]) -> None:
        super().__init__()
        self.table = table
        for n, (_, operands) in enumerate(table.values()):
            for k, operand in enumerate(operands):
                self.register_buffer(f"x{n}_{k}", operand)

    def forward(self, i: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            function(i, j, *(getattr(self, f"x{n}_{k}") for k in range(len(operands))))
            for n, (function, operands) in enumerate(self.table.values())
        )


@pytest.mark.parametrize("table", [PRODUCTS, WINDOWS, ROWS], ids=["products", "windows", "rows"])
def test_gathered_operands(table: dict[str, tuple[Function, tuple[torch.Tensor, ...]]]) -> None:
    places = [torch.randint(20, (n,), generator=GENERATOR) for n in (20, 100)]
    compiled = compile_all(Table(table), tuple(places))
    agree(compiled, tuple(places))
