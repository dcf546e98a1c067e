"""A step that extends a cache and attends to it: the new row is read where it is made."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.devices import H200
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.target import CPU, INTERPRETER, Target

from .oracle import Compiled, agree, compile_all

HOPPER = Target("cuda", 90)  # its text, interpreted
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@dataclass(frozen=True)
class Sizes:
    """Of a layer: batch, heads, heads of keys, elements of a head, places in the cache."""

    batch: int
    heads: int
    shared: int
    head: int
    cache: int


class Step(nn.Module):
    """A layer of a decoder with rotary positions; ``kind`` says how it goes about its cache."""

    def __init__(self, sizes: Sizes, kind: str = "") -> None:
        super().__init__()
        self.sizes, self.kind = sizes, kind
        width, both = sizes.heads * sizes.head, 2 * sizes.shared * sizes.head
        self.wide = nn.Linear(width, width + both, bias=False)
        shape = (sizes.batch, sizes.shared, sizes.cache, sizes.head)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))
        self.register_buffer("seen", torch.zeros(sizes.cache, dtype=torch.bool))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> Any:
        s = self.sizes
        parts = self.wide(x).unflatten(-1, (-1, s.head)).transpose(1, 2)
        q, k, v = parts.split((s.heads, s.shared, s.shared), 1)
        angle = (at[:, None] * torch.arange(s.head // 2) * 0.01).repeat(1, 2)[:, None, None]
        q, k = (_turned(one, angle.cos(), angle.sin()) for one in (q, k))
        before = self.keys.sum() if self.kind == "reads the old cache" else None
        if self.kind == "a place for each element":
            place = at.expand(s.batch, s.shared, 1, s.head) + torch.arange(s.head) % 2
            self.keys.scatter_(2, place, k)
            self.values.index_copy_(2, at, v)
        elif at.shape[0] == 1 and self.kind != "by index":
            self.keys.index_copy_(2, at, k)
            self.values.index_copy_(2, at, v)
        else:
            rows = torch.arange(s.batch)
            self.keys[rows, :, at] = k[:, :, 0]
            self.values[rows, :, at] = v[:, :, 0]
        mask = self._mask(torch.arange(s.cache), at[:, None])
        y = F.scaled_dot_product_attention(q, self.keys, self.values, mask, enable_gqa=True)
        match self.kind:
            case "reads the old cache":
                return y, before
            case "gives the cache":
                return y, self.keys.clone()
            case "reads the new cache":
                return y, self.keys.sum(2)
        return y

    def _mask(self, key: torch.Tensor, last: torch.Tensor) -> torch.Tensor | None:
        match self.kind:
            case "no mask":
                return None
            case "window":
                seen = (key <= last) & (key > last - 90)
            case "before the row":
                seen = key < last - 5
            case "places kept as state":
                self.seen.index_fill_(0, last[:, 0], True)
                seen = self.seen | (key < 3)
                return seen[None, None, None]
            case _:
                seen = key <= last
        return seen[:, None, None]


def _turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return (x * cosine + torch.cat((-high, low), -1) * sine).to(x.dtype)


FEW = replace(H200, multiprocessors=4)  # so that programs have several blocks


def case(
    sizes: Sizes, kind: str, dtype: torch.dtype, at: list[int]
) -> tuple[nn.Module, tuple[Any, ...]]:
    module = Step(sizes, kind).eval().to(dtype)
    x = torch.randn(sizes.batch, 1, sizes.heads * sizes.head).to(dtype)
    return module, (x, torch.tensor(at))


@pytest.mark.parametrize(
    ("sizes", "kind", "dtype", "at"),
    [
        (Sizes(1, 4, 2, 64, 512), "", BF16, [0]),
        (Sizes(1, 4, 2, 64, 512), "", BF16, [127]),  # the last of a block
        (Sizes(1, 4, 2, 64, 512), "", BF16, [128]),  # the first of one
        (Sizes(1, 4, 2, 64, 512), "", BF16, [511]),
        (Sizes(1, 4, 1, 64, 997), "", F16, [996]),  # a rest
        (Sizes(1, 2, 2, 40, 300), "", BF16, [150]),  # padded heads
        (Sizes(1, 2, 1, 128, 400), "", BF16, [300]),
        (Sizes(1, 2, 1, 16, 130), "", F32, [129]),
        (Sizes(1, 4, 2, 64, 512), "no mask", BF16, [200]),
        (Sizes(3, 4, 2, 64, 257), "", BF16, [0, 256, 100]),
        (Sizes(2, 4, 2, 16, 64), "no mask", F32, [63, 0]),
        (Sizes(1, 2, 1, 16, 1), "", F32, [0]),
        (Sizes(1, 4, 2, 64, 512), "window", BF16, [400]),
        (Sizes(1, 4, 2, 64, 512), "before the row", BF16, [300]),
        (Sizes(1, 4, 2, 64, 512), "by index", BF16, [-1]),
        (Sizes(1, 4, 2, 64, 512), "places kept as state", BF16, [300]),
        (Sizes(1, 4, 2, 64, 256), "a place for each element", BF16, [100]),
        (Sizes(1, 4, 2, 64, 300), "reads the old cache", BF16, [7]),
        (Sizes(1, 4, 2, 64, 300), "gives the cache", BF16, [7]),
        (Sizes(1, 4, 2, 64, 300), "reads the new cache", BF16, [7]),
    ],
)
def test_steps_agree(sizes: Sizes, kind: str, dtype: torch.dtype, at: list[int]) -> None:
    module, (x, first) = case(sizes, kind, dtype, at)
    compiled = compile_all(module, (x, first), targets=(CPU, INTERPRETER, HOPPER))
    programs = kind != "reads the old cache"  # their weights share memory with eager's
    for step in range(2):  # the second reads what the first has added
        args = torch.randn_like(x), (first + step) % sizes.cache
        agree(compiled, args, programs=programs)


@pytest.mark.parametrize("at", [0, 127, 128, 255, 256, 400, 511])
@pytest.mark.parametrize("kind", ["", "no mask", "window"])
def test_programs_of_two_blocks_agree(kind: str, at: int) -> None:
    module, (x, first) = case(Sizes(1, 4, 2, 64, 512), kind, BF16, [at])
    compiled = compile_all(module, (x, first), targets=(HOPPER,), gpu=FEW)
    assert asks_first(compiled)
    agree(compiled, (x, first))


def asks_first(compiled: Compiled) -> bool:
    kernels = (k for one in compiled.scheduled.schedules for k in one.kernels)
    tiles = (v.tile for k in kernels for v in k.variants)
    return any(isinstance(tile, AttentionTile) and tile.keys_first for tile in tiles)
