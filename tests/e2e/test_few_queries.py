"""Attention of few queries over many keys: parts of the keys, grouped heads, filled caches."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.target import INTERPRETER

from .oracle import Compiled, agree, compile_all

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
GENERATOR = torch.Generator().manual_seed(0)


@dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    shared: int
    queries: int
    keys: int
    depth: int

    def factors(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        def one(heads: int, count: int) -> torch.Tensor:
            size = (self.batch, heads, count, self.depth)
            return torch.randn(size, generator=GENERATOR).to(dtype)

        q, (k, v) = one(self.heads, self.queries), (one(self.shared, self.keys) for _ in "kv")
        return q, k, v


class Attended(nn.Module):
    """Masks compare positions of keys with ``at``, one for each of the batch."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor
    ) -> torch.Tensor:
        key = torch.arange(k.shape[2])
        last = (at[:, None] + torch.arange(q.shape[2]))[:, None, :, None]
        mask: torch.Tensor | None = None
        match self.kind:
            case "filled":
                mask = key <= last
            case "window":
                mask = (key <= last) & (last - 90 < key)
            case "bias":
                mask = torch.where(key <= last, key * 0.01, float("-inf")).to(q.dtype)
            case "also the last":
                mask = (key <= last) | (key == k.shape[2] - 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def compiled(kind: str, args: tuple[Any, ...], dynamic_shapes: Any = None) -> Compiled:
    return compile_all(Attended(kind), args, None, dynamic_shapes, (INTERPRETER,))


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "at"),
    [
        ("", Shape(1, 4, 2, 1, 643, 64), BF16, [0]),
        ("filled", Shape(1, 4, 1, 1, 997, 128), BF16, [700]),
        ("filled", Shape(2, 6, 2, 1, 513, 40), F16, [-1, 512]),  # no key, and all of them
        ("window", Shape(2, 4, 1, 3, 512, 16), F32, [300, 4]),
        ("bias", Shape(1, 2, 2, 2, 401, 32), BF16, [255]),
        ("also the last", Shape(1, 2, 1, 1, 385, 16), F32, [7]),
        ("filled", Shape(1, 2, 1, 1, 1, 16), BF16, [0]),
        ("filled", Shape(1, 2, 1, 70, 300, 16), F32, [-20]),  # more queries; some see no key
        ("window", Shape(1, 2, 1, 70, 300, 16), F32, [150]),
    ],
)
def test_keys_in_parts(kind: str, shape: Shape, dtype: torch.dtype, at: list[int]) -> None:
    args = (*shape.factors(dtype), torch.tensor(at))
    agree(compiled(kind, args), args, programs=False)


def test_any_batch_and_any_number_of_keys() -> None:
    shape = Shape(2, 4, 2, 1, 300, 16)
    args = (*shape.factors(F32), torch.tensor([3, 299]))
    batch, keys = Dim("b", min=1, max=256), Dim("s", min=1, max=4096)
    shapes = ({0: batch}, {0: batch, 2: keys}, {0: batch, 2: keys}, {0: batch})
    made = compiled("filled", args, shapes)
    for count, length in ((2, 300), (1, 1), (3, 129), (70, 20)):  # more tiles than programs
        q, k, v = Shape(count, 4, 2, 1, length, 16).factors(F32)
        at = torch.randint(length, (count,), generator=GENERATOR)
        agree(made, (q, k, v, at), programs=False)


def test_what_is_not_filled_is_not_read() -> None:
    q, k, v = Shape(1, 4, 2, 1, 513, 16).factors(F32)
    at = torch.tensor([130])
    for cache in (k, v):
        cache[:, :, 192:] = torch.nan  # behind the block of the last key
    (answer,) = (model(q, k, v, at) for model in compiled("filled", (q, k, v, at)).models.values())
    assert torch.isfinite(torch.as_tensor(answer)).all()
    cut = tuple(x.narrow(2, 0, 192) for x in (k, v))
    torch.testing.assert_close(torch.as_tensor(answer), Attended("filled")(q, *cut, at))


class Timed(nn.Module):
    """Positions of keys are times, far from 0 and on both sides of it."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, now: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        key = torch.arange(k.shape[2])[None]
        seconds, days = key + 1_700_000_000, key + 1_700_000_000_000
        masks = (
            seconds <= now,
            seconds.int() <= now.clamp(max=2**31 - 1).int(),
            (days <= now * 1000) & (days > now * 1000 - 40),
            key - 2**31 - 10 >= now - 1_700_000_000 - 2**31,
        )
        return tuple(F.scaled_dot_product_attention(q, k, v, attn_mask=mask) for mask in masks)


def test_positions_may_begin_anywhere() -> None:
    args = (*Shape(1, 2, 2, 1, 300, 16).factors(F32), torch.tensor(1_700_000_050))
    made = compile_all(Timed(), args, None, None, (INTERPRETER,))
    for now in (1_700_000_050, 1_700_000_000, 0, 2**50, 1_700_000_299):
        agree(made, (*args[:3], torch.tensor(now)), programs=False)


def test_equal_inputs_give_equal_bits() -> None:
    args = (*Shape(1, 4, 2, 1, 643, 16).factors(F32), torch.tensor([500]))
    made = compiled("filled", args)
    kernel = made.scheduled.schedule.kernels[-1]
    assert any(isinstance(v.tile, AttentionTile) and v.tile.most_programs for v in kernel.variants)
    (model,) = made.models.values()
    first, second = (torch.as_tensor(model(*args)).clone() for _ in range(2))
    assert torch.equal(first, second)
