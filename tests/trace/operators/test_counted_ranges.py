"""Checks of counted sizes beside dynamic ones: what the model admits is admitted, and no more."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError

Check = Callable[[int, int], None]


class Cache(nn.Module):
    """Rows are written from a position on that data give."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check
        self.register_buffer("rows", torch.zeros(8, 3))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start = position.item()
        torch._check(start >= 0)
        self.check(start, x.shape[0])
        self.rows[start : start + x.shape[0]] = x
        return self.rows * 1


def fits(start: int, count: int) -> None:
    torch._check(start + count <= 8)


def before_the_last(start: int, count: int) -> None:
    fits(start, count)
    torch._check(start <= 6)  # follows from the line before, for 2 rows or more


def behind_as_many(start: int, count: int) -> None:
    fits(start, count)
    torch._check(start >= count)


def short_of(start: int, count: int) -> None:
    torch._check(2 * start + count < 13)


CHECKS = (fits, before_the_last, behind_as_many, short_of)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_positions_beside_dynamic_sizes(*, check: Check, strict: bool) -> None:
    example = torch.randn(2, 3), torch.tensor(3)
    shapes = {"x": {0: Dim("n", min=1, max=5)}, "position": None}
    model = aotpack.compile(
        Cache(check), example, dynamic_shapes=shapes, target="interpreter", strict=strict
    )
    eager = Cache(check)
    for count in (1, 2, 5):
        for start in range(-1, 10):
            args = torch.randn(count, 3), torch.tensor(start)
            try:
                expected = eager(*args)
            except RuntimeError:
                with pytest.raises(AotpackError):
                    model(*args)
            else:
                assert torch.equal(model(*args), expected), (count, start)
