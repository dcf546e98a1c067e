"""Small kernels of dynamic sizes share a launch; each has the programs that its sizes need."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.kernel import launches

from .oracle import agree, compile_all


class Heads(nn.Module):
    """Independent softmaxes of a batch, of rows that differ in length, and one of another size."""

    def forward(self, *xs: torch.Tensor) -> Any:
        return [x.softmax(-1) for x in xs[:-1]], xs[-1] * 2


@pytest.mark.row("C:J15")
def test_small_kernels_of_a_dynamic_batch_share_a_launch() -> None:
    batch, length = Dim("b", min=1, max=64), Dim("s", min=1, max=512)
    given = tuple(torch.randn(5, 10 + n) for n in range(6))
    shapes = {"xs": ({0: batch},) * 6 + ({0: length},)}
    compiled = compile_all(Heads(), (*given, torch.randn(7, 3)), dynamic_shapes=shapes)
    (made,) = compiled.scheduled.schedules
    assert [len(together) for together in launches(made.kernels)] == [7]
    for count, more in ((1, 512), (64, 1), (33, 100)):
        xs = tuple(torch.randn(count, 10 + n) for n in range(6))
        agree(compiled, (*xs, torch.randn(more, 3)), programs=count == 1)
