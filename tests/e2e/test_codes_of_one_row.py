"""On a GPU: products of one row and codes, alone and in pairs behind a norm, of many sizes."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

import aotpack
from tests.e2e.law import LAW, accuracy_complaint
from tests.e2e.test_quantize import reference

BF16, F16 = torch.bfloat16, torch.float16


class Gated(nn.Module):
    """A norm, two products of the same row, and one behind them."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(depth, eps=1e-5)
        self.gate, self.up = (nn.Linear(depth, width, bias=False) for _ in range(2))
        self.down = nn.Linear(width, depth)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def models(depth: int, width: int) -> dict[str, nn.Module]:
    return {"one": nn.Sequential(nn.Linear(depth, width)), "gated": Gated(depth, width)}


SIZES = [(2048, 24), (2048, 2048), (4096, 1040), (6144, 8), (8192, 2048), (2048, 8192), (3072, 64)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("model", ["one", "gated"])
@pytest.mark.parametrize(
    "kind", ["int8", "int8:group=64", "fp8", "int4", "int4:group=64", "int4:group=32"]
)
def test_answers_are_those_of_rounded_weights(
    kind: str, model: str, size: tuple[int, int], dtype: torch.dtype
) -> None:
    if size[1] % 128 and model == "gated" and kind.startswith("int"):
        pytest.skip("groups do not divide the inner width")
    torch.manual_seed(0)
    module = models(*size)[model].to(dtype).eval()
    x = torch.randn(1, size[0], dtype=dtype)
    packaged = aotpack.compile(module, (x,), quantize=kind)
    wide = reference(module, kind).double().cuda()
    with torch.no_grad():
        narrow = copy.deepcopy(wide).to(dtype)
        for row in (x, x * 1e-4, x * 64, torch.zeros_like(x)):
            given = row.cuda()
            answers: Any = packaged(given), narrow(given), wide(given.double())
            assert accuracy_complaint(*(one.cpu() for one in answers), LAW) is None
        for special in (float("inf"), float("nan")):
            bad = x.clone()
            bad[0, 77] = special
            assert not bool(packaged(bad.cuda()).isfinite().any())
