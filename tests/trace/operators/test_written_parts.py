"""Parts of dynamic lengths that are written to, or read: right where a length is 1 or 0, too."""

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


class Read(nn.Module):
    """A function of the input."""

    def __init__(self, read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x)


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


def columns_doubled(y: Tensor, x: Tensor) -> None:
    y.t()[1:].mul_(2)


def columns_filled(y: Tensor, x: Tensor) -> None:
    y.permute(1, 0).narrow(0, 1, x.shape[1] - 1).masked_fill_(x.t()[1:] > 0, 2.0)


def columns_summed(y: Tensor, x: Tensor) -> None:
    y.t()[1:].cumsum_(0)


def second(y: Tensor, x: Tensor) -> None:
    y[:, 1:2].mul_(2)


def last_two(y: Tensor, x: Tensor) -> None:
    y[-2:] = 1.0


def behind_the_third(y: Tensor, x: Tensor) -> None:
    y[:, 3:] += 1


WAYS = (
    columns_doubled,
    columns_filled,
    columns_summed,
    second,
    last_two,
    behind_the_third,
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


def a_column(y: Tensor, x: Tensor) -> None:
    y.unbind(1)[1].add_(1)


def corners(y: Tensor, x: Tensor) -> None:
    left, top, right, bottom = torch.unbind(y, -1)
    left.clamp_(min=0)
    top[0] = 7
    right[x[:, 0] > 0] = 3
    bottom.copy_(left * 2)


def each_column(y: Tensor, x: Tensor) -> None:
    for place, column in enumerate(y.t()):
        column *= place


def taken_apart(y: Tensor, x: Tensor) -> Tensor:
    first, *_, last = y.t()
    last += first
    return torch.cat([last, first])


def parts_of_pairs(y: Tensor, x: Tensor) -> None:
    y.view(-1, 2, 2).unbind(2)[1].unbind(1)[0].neg_()


@pytest.mark.parametrize("write", [a_column, corners, each_column, taken_apart, parts_of_pairs])
def test_entries_of_a_fixed_dimension_are_written(write: Callable[[Tensor, Tensor], Any]) -> None:
    model, shapes = Written(write), ({0: Dim("n", min=1, max=40)},)
    given = (torch.randn(6, 4),)
    with aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter") as package:
        for rows in (1, 2, 3, 4, 6, 7, 40):
            x = torch.randn(rows, 4)
            assert torch.equal(package(x), model(x)), rows


def summed_rows(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[1])
    for row in x:
        total = total + row
    return total


def two_rows(x: Tensor) -> Tensor:
    first, second = x
    return first + second


@pytest.mark.parametrize(
    "read",
    [lambda x: sum(x.unbind(0)), lambda x: sum(torch.cat([x, x]).unbind()), summed_rows, two_rows],
)
def test_entries_of_a_dynamic_dimension_are_refused(read: Callable[[Tensor], Tensor]) -> None:
    words = (
        r"unbind of dimension 0 of a tensor gives a number of tensors that depends on its size"
        r"(.|\n)*leave the dimension out(.|\n)*at test_written_parts.py:\d+"
    )
    shapes = ({0: Dim("n", min=2, max=40)},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            Read(read), (torch.randn(2, 4),), dynamic_shapes=shapes, target="interpreter"
        )


def longer(y: Tensor, x: Tensor) -> None:
    y[:, 1:] = x[:, :-2]


def repeated(y: Tensor, x: Tensor) -> Tensor:
    z = y[:1].expand(4, -1)
    z.copy_(x[:4])
    return z


def asks(y: Tensor, x: Tensor) -> Tensor:
    y[:, 1:] = x[:, :-1]
    return y * (2.0 if y[:, 1:].is_contiguous() else 3.0)


def greatest(y: Tensor, x: Tensor) -> Tensor:
    return y.t()[1:].max(0)[0]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (longer, "expand|size|shape"),
        (repeated, "more than one element of the written-to tensor refers to a single memory"),
        (greatest, r"needs n_ - 1 >= 1, which does not hold for n_=1"),
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


READ: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda x: x[:, 1:].flatten(),
    "all of both": lambda x: x[1:, 1:].reshape(-1),
    "of a transposed view": lambda x: x[:-1].t().flatten(),
    "of constant ends": lambda x: torch.cat([x[:, 1:3].flatten(), x[:, 3:].flatten() * 2]),
    "rows": lambda x: x[1:].reshape(-1, x.shape[1]),
    "sum": lambda x: x[:, 1:].sum(1) + x[:, 1:].flatten().sum(),
    "mean": lambda x: x[:, 1:].mean(1),
}


@pytest.mark.parametrize("name", READ)
def test_parts_without_elements_are_read(name: str) -> None:
    model, given = Read(READ[name]), (torch.randn(6, 5),)
    shapes = ({axis: Dim(size, min=1, max=40) for axis, size in enumerate("mn")},)
    with aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter") as package:
        for shape in product((1, 2, 3, 40), (1, 2, 3, 4, 7)):
            x = torch.randn(shape)
            torch.testing.assert_close(package(x), model(x), equal_nan=True)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda x: x[:, 1:].reshape(-1, x.shape[1] - 1), r"unspecified dimension size -1"),
        (lambda x: x[1:].flatten().argmax(), r"those where\n *\(n\*\(\(-1\) \+ m\)\) != 0"),
        (lambda x: x if x[1:].numel() == 0 else x * 2, r"those where\n *\(n\*.* != 0"),
    ],
)
def test_parts_without_elements_of_which_more_is_asked_are_refused(
    read: Callable[[Tensor], Tensor], words: str
) -> None:
    shapes = ({axis: Dim(size, min=1, max=40) for axis, size in enumerate("mn")},)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(
            Read(read), (torch.randn(6, 5),), dynamic_shapes=shapes, target="interpreter"
        )
