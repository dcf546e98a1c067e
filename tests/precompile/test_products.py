"""A product and the sum it goes into round once, or each if asked for."""

from pathlib import Path

import pytest
import torch
from torch import nn

from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import Target
from tests.ptx import ptx


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + x


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def made(precision: str) -> Build:
    args = torch.randn(64), torch.randn(64)
    return Build(Source(Model(), args), BuildOptions((Target("cuda", 90),), precision=precision))


def test_strict_rounds_both() -> None:
    (kernel,) = made("strict").rendered.kernels
    text = ptx(kernel, fuses_products=False)
    assert "mul" in text and "add" in text and "fma" not in text


def test_by_default_one_instruction_rounds_once() -> None:
    (kernel,) = made("default").rendered.kernels
    assert "fma.rn.f32" in ptx(kernel)


def test_the_option_reaches_the_compiler() -> None:
    default, strict = (made(name).precompiled.binaries for name in ("default", "strict"))
    assert default[0].kernel == strict[0].kernel
    assert default[0].code != strict[0].code
