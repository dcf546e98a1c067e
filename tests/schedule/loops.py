"""Loops of models as kernels."""

from functools import cache
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.lower import lower
from aotpack.pipeline import Build, Source
from aotpack.schedule import schedule


class Layer(nn.Module):
    """A recurrent layer of ``units``: the state becomes tanh of an input and of ``gates``."""

    def __init__(self, units: int, gates: int = 1, *, turned: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(gates * units, units))
        self.gates, self.turned = gates, turned

    def forward(self, first: torch.Tensor, xs: torch.Tensor) -> Any:
        def step(state: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
            used = state.flip(-1) if self.turned else state
            first, *others = nn.functional.linear(used, weight).chunk(self.gates, -1)
            new = (sum((one.relu() for one in others), first) + x).tanh()
            return new, new.clone()

        return scan(lambda state, x: step(state, x, self.weight), first, xs, dim=0)


@cache
def scheduled(
    units: int,
    rows: int = 3,
    gates: int = 1,
    *,
    turned: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Schedule:
    """The schedule of a layer."""
    args = (torch.randn(rows, units, dtype=dtype), torch.randn(4, rows, units, dtype=dtype))
    layer = Layer(units, gates, turned=turned).to(dtype)
    return schedule(lower(Build(Source(layer, args)).traced)).schedule


def loop_in(made: Schedule) -> Kernel:
    """The only loop of a schedule."""
    (loop,) = (kernel for kernel in made.kernels if kernel.control is not None)
    return loop
