"""Autotuned Triton kernels as users write them, and launches of them."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import wrap_triton


def in_blocks(*sizes: int, **options: Any) -> list[triton.Config]:
    """A configuration for each size of blocks; warps tell them apart on GPUs too."""
    return [triton.Config({"BLOCK": size}, num_warps=1 + (size > 8), **options) for size in sizes]


def autotuned(configs: list[triton.Config], **options: Any) -> Callable[[Any], Any]:
    return triton.autotune(configs=configs, key=["n"], **options)


@triton.jit
def body(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(out_ptr + place, x * 2, mask=place < n)


@triton.jit
def in_turns(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Another answer for blocks of another size."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(out_ptr + place, x * BLOCK, mask=place < n)


def at_most_8(configs: list[Any], named: dict[str, Any], **_: Any) -> list[Any]:
    return [config for config in configs if config.kwargs["BLOCK"] <= 8]


def large_first(**given: Any) -> float:
    return 1 / given["BLOCK"]


def hook(*_: Any, **__: Any) -> None:
    """Runs Python before a launch."""


PLAIN = autotuned(in_blocks(4, 8, 16))(body)
PRUNED = autotuned(in_blocks(16, 8, 4), prune_configs_by={"early_config_prune": at_most_8})(body)
MODELLED = autotuned(in_blocks(4, 16, 8), prune_configs_by={"perf_model": large_first, "top_k": 2})(
    body
)
OTHERS_BOUNDED = autotuned([*in_blocks(4), *in_blocks(8, maxnreg=32), *in_blocks(16)])(body)
OWN_HOOK = autotuned(in_blocks(4, pre_hook=hook))(body)
HOOKED = autotuned(in_blocks(4), pre_hook=hook)(body)
OTHER_ANSWER = autotuned(in_blocks(4, 8))(in_turns)
OTHER_NAMES = autotuned([triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 4, "n": 5})])(body)


@autotuned(in_blocks(4, 16), restore_value=["at_ptr"])
@triton.jit
def move_kernel(at_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Stores at a place that it moves: a second run would store elsewhere."""
    at = tl.load(at_ptr)
    place = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        tl.store(out_ptr + start + place, place + start + at, mask=start + place < n)
    tl.store(at_ptr, at + 1)


def doubled(kernel: Any) -> Callable[[Tensor], Tensor]:
    """``out = 2 x`` by a kernel of this file, with a grid by the configuration."""

    def forward(x: Tensor) -> Tensor:
        out, n = torch.empty_like(x), x.numel()
        wrap_triton(kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out

    return forward
