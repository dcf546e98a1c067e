"""Kernels that were merged because they touch the same data answer as eager does."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.kernel import launches

from .oracle import agree, compile_all

WIDTH = 48


class Merged(nn.Module):
    """Two norms that are added, two softmaxes that are compared, a tensor along both sides."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        norms = F.layer_norm(a, (WIDTH,)) + F.layer_norm(b, (WIDTH,))
        p, q = a.log_softmax(-1), b.log_softmax(-1)
        return norms, (p.exp() * (p - q)).sum(-1), b.sin(), b.t().contiguous() * 2


@pytest.mark.row("S:L20", "S:M6", "S:M17")
def test_merged_kernels_answer_as_eager_does() -> None:
    rows = Dim("b", min=1, max=4096)
    given = (torch.randn(5, WIDTH), torch.randn(5, WIDTH))
    shapes = {"a": {0: rows}, "b": {0: rows}}
    compiled = compile_all(Merged(), given, dynamic_shapes=shapes)
    (made,) = compiled.scheduled.schedules
    assert len(launches(made.kernels)) <= 2
    for count in (1, 17, 64):
        agree(compiled, (torch.randn(count, WIDTH), torch.randn(count, WIDTH)))
