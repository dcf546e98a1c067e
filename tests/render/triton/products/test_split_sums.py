"""Products with few tiles share their sums between programs, and the last of these adds them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.target import parse_targets
from tests.render.models import rendered, shown

H100 = parse_targets("sm_90")
Case = tuple[nn.Module, tuple[Tensor, ...]]


class Batched(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.relu(torch.bmm(a, b))


def convolution(dtype: torch.dtype) -> Case:
    model = nn.Sequential(nn.Sigmoid(), nn.Conv2d(512, 40, 3, padding=1))
    return model.to(dtype), (torch.randn(1, 512, 3, 5, dtype=dtype),)


def linear(rows: int, depth: int, columns: int, dtype: torch.dtype) -> Case:
    return nn.Linear(depth, columns).to(dtype), (torch.randn(rows, depth, dtype=dtype),)


CASES: dict[str, Callable[[], Case]] = {
    "convolution": lambda: convolution(torch.bfloat16),
    "whole": lambda: linear(64, 4096, 64, torch.bfloat16),
    "edges": lambda: linear(33, 4111, 70, torch.float16),
    "single": lambda: linear(9, 2900, 70, torch.float32),
    "batched": lambda: (Batched(), (torch.randn(3, 20, 3000), torch.randn(3, 3000, 40))),
}


def is_split(model: nn.Module, *args: Tensor) -> bool:
    texts = [shown(one.text) for one in rendered(model, *args, targets=H100).kernels]
    return any("split = tile %" in text and "_arrived_ptr" in text for text in texts)


@pytest.mark.parametrize("case", CASES)
def test_the_parts_are_added_and_the_counters_are_zero_again(case: str) -> None:
    torch.manual_seed(0)
    model, args = CASES[case]()
    assert is_split(model, *args)
    packaged = aotpack.compile(model, args, target="interpreter")
    exact, eager = model.double()(*(arg.double() for arg in args)), model.to(args[0].dtype)(*args)
    allowed = 1.5 * (eager - exact).abs().max() + torch.finfo(eager.dtype).eps * exact.abs().max()
    for _ in range(2):
        found = packaged(*args)
        assert (torch.as_tensor(found) - exact).abs().max() <= allowed


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(64, 256, 64), (2048, 1024, 2048)], ids=["short", "many tiles"]
)
def test_products_that_fill_the_gpu_or_are_short_are_not_split(
    rows: int, depth: int, columns: int
) -> None:
    with torch.device("meta"):
        model = nn.Linear(depth, columns)
    model = model.to_empty(device="cpu").bfloat16()
    assert not is_split(model, torch.zeros(rows, depth, dtype=torch.bfloat16))
