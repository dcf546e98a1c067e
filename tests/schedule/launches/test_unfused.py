"""Kernels in parts: where a measurement may pay, and what parts must leave as it is."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm

from aotpack.ir.kernels.kernel import Kernel
from aotpack.schedule.launches.unfused import keeps_operands
from tests.schedule.programs import scheduled

ROWS = torch.zeros(512, 1024)  # 2 MB
FEW = torch.zeros(8, 1024)
Function = Callable[..., object]


class Model(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def kernels(function: Function, *args: torch.Tensor) -> tuple[Kernel, ...]:
    return scheduled(Model(function), *args, offers_unfused=True).schedule.kernels


def residual_norm(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    t = x + y
    return t, layer_norm(t, (1024,))


def overwritten(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The differences lie where the product was, which the sum before them reads too."""
    t = x @ y
    top = t.amax(1, keepdim=True)
    total = (t * z).sum(1)
    return (t - top) @ y, total


PARTED: dict[str, tuple[Function, tuple[torch.Tensor, ...], list[list[str]]]] = {
    "a reduction and what is pointwise behind it": (
        lambda x: x.softmax(-1),
        (ROWS,),
        [["softmax_max", "softmax_sum"], ["softmax"]],
    ),
    "what is stored, and its reduction": (
        residual_norm,
        (ROWS, ROWS),
        [["add", "layer_norm_mean", "layer_norm_m2"], ["layer_norm"]],
    ),
    "siblings": (
        lambda x, y: (x.sum(1), (x * y).sum(1)),
        (ROWS, ROWS),
        [["sum_1"], ["sum_2"]],
    ),
}
WHOLE: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "too few bytes for a second launch": (lambda x: x.softmax(-1), (FEW,)),
    "twice the reads": (lambda x, y: (x * y).softmax(-1), (ROWS, ROWS)),
    "a little behind a reduction": (lambda x: x.sum(1).exp(), (ROWS,)),
    "nothing but pointwise operations": (lambda x: (x.exp(), x.sin()), (ROWS,)),
}


@pytest.mark.row("S:N3")
@pytest.mark.parametrize("name", PARTED)
def test_heavy_kernels_come_in_parts(name: str) -> None:
    function, args, expected = PARTED[name]
    (kernel,) = kernels(function, *args)
    assert [list(part.stored) for part in kernel.unfused] == expected
    assert set(kernel.stored) <= {stored for part in kernel.unfused for stored in part.stored}


@pytest.mark.row("S:N3")
@pytest.mark.parametrize("name", WHOLE)
def test_no_parts_where_they_cannot_pay(name: str) -> None:
    function, args = WHOLE[name]
    assert all(kernel.unfused == () for kernel in kernels(function, *args))


@pytest.mark.row("S:N3")
def test_no_part_overwrites_what_the_next_one_reads() -> None:
    square = torch.zeros(1024, 1024)
    schedule = scheduled(Model(overwritten), square, square, square, offers_unfused=True).schedule
    kernel = schedule.kernels[1]
    homes = {life.buffer: life.storage for life in schedule.lifetimes}
    assert homes["sub"] == homes["matmul"] == "matmul"
    before, behind = kernel.unfused
    assert (before.stored, behind.stored) == (("amax", "sum_1"), ("sub",))
    assert keeps_operands((before, behind), schedule.strides, homes)
    assert not keeps_operands((behind, before), schedule.strides, homes)
