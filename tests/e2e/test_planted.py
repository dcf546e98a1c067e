"""A package that computes something else than its model fails on the model's golden data.

The wrong package is that of another model, with the golden data of the right one.
"""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.runtime.selftest import check_golden
from aotpack.target import CPU

from .models import Function

X = torch.tensor([0.999, 1.4, 2049.0, 3.6, -7.7, 100.3])
TIES = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 5.0, 1.0, 5.0]])
ENDLESS = torch.tensor([[1.0, math.inf, 3.0, 2.0], [0.0, 5.0, 1.0, 5.0]])
NANS = torch.tensor([[math.nan, 3.0, 3.0, 0.0, 0.0], [0.0, 4.0, math.nan, 1.0, 4.0]])
MANY = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))

PLANTED = {
    "five of six integers": (
        lambda x: (x * 3).round().int(),
        lambda x: (x * 3).round().int() + (x < 2000),
        X,
    ),
    "a rounding to another side": (lambda x: (x * 2).floor(), lambda x: (x * 2).ceil(), X),
    "small numbers beside a large one": (
        lambda x: x * x,
        lambda x: torch.where(x < 1000, x * x * 1.01, x * x),
        X.abs(),
    ),
    "the last of equal numbers": (
        lambda x: (x * 0.3).argmax(-1),
        lambda x: 3 - (x * 0.3).flip(-1).argmax(-1),
        TIES,
    ),
    "equality": (lambda x: x * 0.25 > 0.25, lambda x: x * 0.25 >= 0.25, TIES),
    "an order": (
        lambda x: x.sin().argsort(dim=-1, stable=True),
        lambda x: x.sin().argsort(dim=-1, descending=True, stable=True),
        TIES,
    ),
    "what a conversion cuts off": (
        lambda x: (x - x.bfloat16().float(), x.half().to(torch.int32), x.bfloat16().floor()),
        lambda x: (x - x.bfloat16().float(), x.to(torch.int32), x.bfloat16().floor()),
        X,
    ),
    "a floor without its conversion": (lambda x: x.bfloat16().floor(), lambda x: x.floor(), X),
    "no low part": (lambda x: x - x.bfloat16().float(), lambda x: x - x, X),
    "equality without its conversion": (lambda x: x.bfloat16() == 1.0, lambda x: x == 1.0, X),
    "equality of a wide sum": (
        lambda x: (x.bfloat16() + 1 / 512) == x.bfloat16(),
        lambda x: (x.bfloat16().float() + 1 / 512) == x.bfloat16().float(),
        X,
    ),
    "a mean that is NaN beside an infinity": (
        lambda x: torch.var_mean(x, 1)[1],
        lambda x: torch.var_mean(x, 1)[1] + x.sum(1) * 0,
        ENDLESS,
    ),
    "the most frequent, with NaN as 0": (
        lambda x: x.mode(1).values,
        lambda x: x.nan_to_num(0).mode(1).values,
        torch.tensor([[4.0, 4.0, 1.0, math.nan, math.nan], [5.0, 0.0, 5.0, 1.0, math.nan]]),
    ),
    "0 for a query of NaN": (
        lambda x: scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: scaled_dot_product_attention(x, x, x, is_causal=True).nan_to_num(0),
        NANS[:, None, :, None].expand(-1, -1, -1, 8).clone(),
    ),
    "the largest difference without NaN": (
        lambda x: torch.cdist(x, x, float("inf")),
        lambda x: torch.cdist(x.nan_to_num(0), x.nan_to_num(0), float("inf")),
        NANS,
    ),
    "one element of a sampled result": (
        lambda x: x.sin(),
        lambda x: torch.where(x == x.amax(), 0, x.sin()),
        MANY,
    ),
    "a row of a sampled result": (
        lambda x: x.softmax(-1),
        lambda x: torch.cat([x[:20].softmax(-1), x[20:21], x[21:].softmax(-1)]),
        MANY,
    ),
    "an integer of a sampled result": (
        lambda x: (x * 10).int(),
        lambda x: (x * 10).int() + (x == x.amin()),
        MANY,
    ),
}


def built(model: nn.Module, x: torch.Tensor) -> Build:
    """A build with little golden data."""
    options = BuildOptions((CPU,), golden=6e3)
    return Build(Source(model, (x,)), options)


def failed(right: Build, wrong: Build, folder: Path) -> bool:
    """Whether the package of one model fails on the golden data of another."""
    rendered = replace(wrong.rendered, golden=right.traced.golden)
    write_package(replace(wrong.precompiled, rendered=rendered), folder)
    with load(folder, "cpu") as model:
        return not all(check.is_passed for check in check_golden(model, model))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_fails(tmp_path: Path, name: str) -> None:
    right, wrong, x = PLANTED[name]
    model = built(Function(right, 1), x)
    assert failed(model, built(Function(wrong, 1), x), tmp_path / "wrong")
    assert not failed(model, model, tmp_path / "right")
