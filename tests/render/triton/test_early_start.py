"""Kernels that start while the launch before them drains: what they do before they wait."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from aotpack.early_start import FIRST_ARCH
from aotpack.precompile.request import Request
from aotpack.render.triton.early_start import without_early_start
from aotpack.target import Target
from tests.ptx import ptx
from tests.render.models import Attended, Gelu, Projection, Softmax, rendered

GLOBAL = re.compile(r"\b(?:(?:ld|st|atom|red)\.(?:\w+\.)*global|cp\.async|tensormap)")
WAIT = "griddepcontrol.wait"


class Several(nn.Module):
    """Kernels that are launched as one."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), y.softmax(-1)


class Sums(nn.Module):
    """A sum that its last program finishes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1)


BF16 = torch.bfloat16
CASES = {
    "pointwise": (Gelu(), (torch.zeros(5, 7), torch.zeros(7, dtype=BF16))),
    "rows": (Softmax(), (torch.zeros(64, 1000),)),
    "product": (Projection(2048, 256).bfloat16(), (torch.zeros(4096, 2048, dtype=BF16),)),
    "attention": (Attended(), tuple(torch.zeros(1, 2, 64, 64, dtype=BF16) for _ in range(3))),
    "combined": (Several(), (torch.zeros(64), torch.zeros(4, 100))),
    "completed": (Sums(), (torch.zeros(2, 2**20),)),
}


@pytest.mark.parametrize("case", CASES)
def test_no_kernel_touches_memory_before_it_waits(case: str) -> None:
    module, args = CASES[case]
    for kernel in rendered(module, *args).kernels:
        if kernel.is_for(FIRST_ARCH):
            entry = ptx(kernel).partition(".entry")[2]
            before, wait, after = entry.partition(WAIT)
            assert kernel.starts_early and wait and WAIT not in after
            assert not GLOBAL.search(before) and GLOBAL.search(after)
            assert "griddepcontrol.launch_dependents" in after


def test_older_gpus_get_the_same_text_without_it() -> None:
    module, args = CASES["rows"]
    kernel = rendered(module, *args).kernels[0]
    old, new = (Request.of(kernel, Target("cuda", arch)) for arch in (80, FIRST_ARCH))
    assert new.starts_early and new.text == kernel.text and "gdc_" in new.text
    assert not old.starts_early and old.text == without_early_start(kernel.text)
    assert "gdc_" not in old.text and WAIT not in ptx(kernel, 80)


def test_a_kernel_that_is_not_ours_is_left_as_it_is() -> None:
    module, args = CASES["rows"]
    kernel = replace(rendered(module, *args).kernels[0], starts_early=False)
    for arch in (80, FIRST_ARCH):
        request = Request.of(kernel, Target("cuda", arch))
        assert request.text == kernel.text and not request.starts_early
