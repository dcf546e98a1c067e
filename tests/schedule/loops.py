"""Loops of models as kernels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import targets
from aotpack.ir.values import Apply, Load, Value
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


class Scanned(nn.Module):
    """A loop whose state and slice of a result are what a step makes of a state and a slice."""

    def __init__(self, step: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, first: torch.Tensor, xs: torch.Tensor, *others: torch.Tensor) -> Any:
        def step(state: torch.Tensor, x: torch.Tensor) -> Any:
            new = self.step(state, x, *others)
            return new, new.clone()

        return scan(step, first, xs, dim=0)


def loop_of(step: Callable[..., torch.Tensor], *args: torch.Tensor) -> Kernel:
    """The loop over steps on a state, slices, and tensors that are the same in each."""
    torch._dynamo.reset()
    return loop_in(schedule(lower(Build(Source(Scanned(step), args)).traced)).schedule)


def loop_in(made: Schedule) -> Kernel:
    """The only loop of a schedule."""
    (loop,) = (kernel for kernel in made.kernels if kernel.control is not None)
    return loop


def with_links(loop: Kernel, names: Sequence[str], operators: int = 0) -> Kernel:
    """The loop with operators on the first state's new value, and with copies of copies of it."""
    entry, body = loop.parts
    program = body.program
    state = program.updates[0].value
    (maker,) = (one for one in program.operations if targets(one) == (state,))
    assert isinstance(maker, Pointwise)
    value: Value = maker.value
    for _ in range(operators):
        value = Apply("sin", (value,), value.dtype)
    links = [replace(maker, target=names[0], value=value)]
    for name, before in zip((*names[1:], state), names, strict=True):
        links.append(
            replace(maker, target=name, value=Load(before, maker.index, maker.value.dtype))
        )
    added = {name: replace(program.buffers[state], name=name) for name in names}
    place = program.operations.index(maker)
    operations = (*program.operations[:place], *links, *program.operations[place + 1 :])
    program = replace(program, buffers=program.buffers | added, operations=operations)
    return replace(loop, parts=(entry, replace(body, program=program)))
