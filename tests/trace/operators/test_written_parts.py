"""Parts of dynamic lengths that are written to: right where a length is 1 or 0, too."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError


class Written(nn.Module):
    """A copy of the input, of which a function writes parts."""

    def __init__(self, write: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor) -> Any:
        y = x.clone()
        found = self.write(y, x)
        return y if found is None else found


def last(y: Tensor, x: Tensor) -> None:
    y[:, 1:] = x[:, :-1]


def half(y: Tensor, x: Tensor) -> None:
    y[:, : x.shape[1] // 2] = x[:, : x.shape[1] // 2] * 2


def inside(y: Tensor, x: Tensor) -> None:
    y[1:-1, 1:-1] = x[1:-1, 1:-1] * 2


def every_other(y: Tensor, x: Tensor) -> None:
    y[1::2] = x.flip(0)[1::2]


def converted(y: Tensor, x: Tensor) -> None:
    y[1:, 1:] = x[1:, 1:].long()


def broadcast(y: Tensor, x: Tensor) -> None:
    y[1:, 1:] = x[0, 1:]


def number(y: Tensor, x: Tensor) -> None:
    y[1:, :-1] = 3.0


def added(y: Tensor, x: Tensor) -> None:
    y[1:, 1:] += x[:-1, :-1]


def columns(y: Tensor, x: Tensor) -> Tensor:
    y.t()[1:] = x.t()[:-1]
    return y.reshape(-1)


def columns_in_memory(y: Tensor, x: Tensor) -> Tensor:
    z = y.t()
    z.copy_(x.t() * 3)
    return z.flatten()


def part_of_a_part(y: Tensor, x: Tensor) -> None:
    y[:, 1:][1:] = x[1:, 1:].mean(0)


def diagonal(y: Tensor, x: Tensor) -> None:
    y.view(-1)[:: x.shape[1] + 1] = 9.0


WAYS = (
    diagonal,
    last,
    half,
    inside,
    every_other,
    converted,
    broadcast,
    number,
    added,
    columns,
    columns_in_memory,
    part_of_a_part,
)


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("least", [1, 2])
def test_parts_are_written(write: Callable[[Tensor, Tensor], Any], least: int) -> None:
    model, given = Written(write), (torch.randn(6, 5),)
    shapes = ({axis: Dim(name, min=least, max=40) for axis, name in enumerate("mn")},)
    with aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter") as package:
        for shape in product((least, 2, 3, 40), (least, 2, 3, 7)):
            x = torch.randn(shape)
            torch.testing.assert_close(package(x), model(x))


def test_a_state_is_written() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(4, 8))

        def forward(self, x: Tensor) -> Tensor:
            self.rows[:, : x.shape[1]] = x
            self.rows[:, 1 : x.shape[1]] += x[:, :-1]
            return self.rows * 2

    model, shapes = Shifted(), ({1: Dim("n", min=1, max=8)},)
    package = aotpack.compile(
        model, (torch.randn(4, 5),), dynamic_shapes=shapes, target="interpreter"
    )
    for length in (1, 8, 2, 5):
        x = torch.randn(4, length)
        torch.testing.assert_close(package(x), model(x))


def longer(y: Tensor, x: Tensor) -> None:
    y[:, 1:] = x[:, :-2]


def repeated(y: Tensor, x: Tensor) -> Tensor:
    z = y[:1].expand(4, -1)
    z.copy_(x[:4])
    return z


def asks(y: Tensor, x: Tensor) -> Tensor:
    y[:, 1:] = x[:, :-1]
    return y * (2.0 if y[:, 1:].is_contiguous() else 3.0)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (longer, "expand|size|shape"),
        (repeated, "more than one element of the written-to tensor refers to a single memory"),
        (asks, "gives another function than the model|holds only for sizes"),
    ],
)
def test_writes_that_differ_by_size_are_refused(
    write: Callable[[Tensor, Tensor], Any], words: str
) -> None:
    shapes = ({axis: Dim(name, min=1, max=40) for axis, name in enumerate("mn")},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            Written(write), (torch.randn(6, 5),), dynamic_shapes=shapes, target="interpreter"
        )
