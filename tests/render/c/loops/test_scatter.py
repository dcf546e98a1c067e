"""What threads share of a scatter: axes along which elements differ."""

import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import rendered


class Copied(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_copy(self.dim, n, v)


def copied(dim: int, *shape: int) -> str:
    """The text of the scatter, which comes after the copy of its base."""
    x, n = torch.zeros(shape), torch.arange(2)
    v = torch.zeros(*(2 if k == dim else size for k, size in enumerate(shape)))
    return rendered(Copied(dim), x, n, v, targets=(CPU,)).kernels[-1].text


def runs(text: str) -> list[str]:
    """The loops of a C kernel, outermost first."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("for (")]


def test_threads_share_the_columns_of_rows_that_may_meet() -> None:
    loops = runs(copied(0, 100, 32))
    assert [loop.split(";")[0] for loop in loops] == [
        "for (int64_t x0 = 0",
        "for (int64_t run = first",
        "for (int64_t x1 = start",
    ]


def test_threads_share_leading_axes_when_these_are_enough() -> None:
    loops = runs(copied(2, 8, 16, 10, 4))
    assert [loop.split(";")[0] for loop in loops] == [
        "for (int64_t item = first",
        "for (int64_t x2 = 0",
        "for (int64_t x3 = 0",
    ]


def test_one_thread_walks_points_that_may_all_meet() -> None:
    text = copied(0, 100)
    assert [loop.split(";")[0] for loop in runs(text)] == ["for (int64_t x0 = 0"]
    assert "aot_parallel(call, (1)," in text
