"""Numbers that are computed from sizes: divisors, integers of 64 bits, what narrow types keep."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from aotpack.runtime.errors import ArgumentError, AssertionFailed
from tests.e2e.models import Function

_INT8 = torch.tensor([[1, 2, 3]], dtype=torch.int8)

# What asks for a number; the first size that eager refuses, or overflows; what is accepted.
NUMBERS: dict[str, tuple[Callable[[Tensor], Any], int, str]] = {
    "quotient": (lambda x: x * (1 / (x.shape[0] - 64)), 64, "max=63"),
    "quotient of several": (lambda x: x * (1 / (3 * x.shape[0] - 90)), 30, "max=29"),
    "in torch": (lambda x: torch.zeros(2) + 1 / (x.shape[0] - 64), 64, "max=63"),
    "power": (lambda x: x * x.shape[0] ** 11, 53, "max=52"),
    "quotient of powers": (lambda x: x * (x.shape[0] ** 11 / x.shape[0] ** 10), 53, "max=52"),
    "full": (lambda x: torch.full((2,), 2 * x.shape[0], dtype=torch.int8), 64, "max=63"),
    "below": (lambda x: torch.full((2,), x.shape[0] - 200, dtype=torch.int8), 2, "min=72"),
    "half": (lambda x: torch.full((2,), x.shape[0] ** 3, dtype=torch.float16), 41, "max=40"),
    "unsigned": (lambda x: torch.full((2,), 4 * x.shape[0], dtype=torch.uint8), 64, "max=63"),
    "full_like": (lambda x: torch.full_like(_INT8, 2 * x.shape[0]), 64, "max=63"),
    "new_full": (lambda x: _INT8.new_full((2,), 2 * x.shape[0]), 64, "max=63"),
    "tensor": (lambda x: torch.tensor(2 * x.shape[0], dtype=torch.int8), 64, "max=63"),
    "fill": (lambda x: _INT8.clone().fill_(2 * x.shape[0]), 64, "max=63"),
    "masked_fill": (lambda x: _INT8.masked_fill(_INT8 > 1, 2 * x.shape[0]), 64, "max=63"),
    "index_fill": (
        lambda x: _INT8.index_fill(1, torch.tensor([0]), 2 * x.shape[0]),
        64,
        "max=63",
    ),
    "where": (lambda x: torch.where(_INT8 > 1, _INT8, 2 * x.shape[0]), 64, "max=63"),
    "clamp": (lambda x: _INT8.clamp(max=2 * x.shape[0]), 64, "max=63"),
    "clamp_min": (lambda x: _INT8.clamp_min(2 * x.shape[0]), 64, "max=63"),
}
RIGHT: dict[str, Callable[[Tensor], Any]] = {
    "sums wrap": lambda x: _INT8 + 2 * x.shape[0],
    "ranges wrap": lambda x: torch.arange(2 * x.shape[0], dtype=torch.int8),
    "comparisons are wide": lambda x: torch.lt(_INT8, 2 * x.shape[0]),
    "negative unsigned": lambda x: torch.full((2,), x.shape[0] - 99, dtype=torch.uint8),
    "half sums are infinite": lambda x: x.half() * x.shape[0] ** 3,
    "bfloat16": lambda x: torch.full((2,), x.shape[0] ** 3, dtype=torch.bfloat16),
    "a choice is infinite": lambda x: torch.where(x > 0, x.half(), 1000 * x.shape[0]),
    "bool": lambda x: torch.full((2,), x.shape[0], dtype=torch.bool),
    "quotient": lambda x: x * (1 / (x.shape[0] + 1)),
    "power": lambda x: x * x.shape[0] ** 9,
    "absolute": lambda x: x * abs(x.shape[0] - 50),
    "rounded integers": lambda x: (
        x * (math.ceil(x.shape[0]) + math.floor(2 * x.shape[0]) - math.trunc(x.shape[0] - 1))
    ),
    "bytes": lambda x: x * x.nbytes,
    "format of no effect": lambda x: x * (2 if f"{x.shape[0]:>4}" else 3),
}


def _built(function: Callable[[Tensor], Any], low: int, high: int, at: int) -> Any:
    sizes = ({0: Dim("rows", min=low, max=high)},)
    model, example = Function(function, 1), (torch.ones(at, 3),)
    return aotpack.compile(model, example, target="interpreter", dynamic_shapes=sizes)


@pytest.mark.parametrize(("function", "size", "accepted"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_eager_refuses(
    function: Callable[[Tensor], Any], size: int, accepted: str
) -> None:
    end, number = accepted.split("=")
    low, high = (2, int(number)) if end == "max" else (int(number), 100)
    with pytest.raises(TraceError, match=f"needs .*, which does not hold .* {accepted}"):
        _built(function, 2, 100, 20 if size > 20 else 90)
    model = _built(function, low, high, 20 if size > 20 else 90)
    for rows in (low, low + 1, high - 1, high):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(model(x), function(x))


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_numbers_that_eager_takes(function: Callable[[Tensor], Any]) -> None:
    model = _built(function, 2, 100, 20)
    for rows in (2, 63, 64, 65, 100):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(model(x), function(x))


def test_a_format_that_decides_is_refused() -> None:
    with pytest.raises(TraceError, match=r"where rows_?=\d+, output0 differs"):
        _built(lambda x: x * len(f"{x.shape[0]:d}"), 2, 100, 20)


def test_elements_of_several_sizes_are_counted() -> None:
    """Sizes without limits: no tensor has as many elements as 64 bits cannot count."""
    sizes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC, 2: Dim.DYNAMIC},)
    model, x = Function(lambda x: x.sum() / x.numel(), 1), torch.rand(3, 4, 5)
    built = aotpack.compile(model, (x,), target="interpreter", dynamic_shapes=sizes)
    torch.testing.assert_close(built(torch.ones(2, 7, 3)), torch.tensor(1.0))


def test_sizes_that_nobody_limits_are_checked_in_calls() -> None:
    """``6 * s / (n * (n ** 2 - 1))`` of any length is right for those that fit."""
    function = Function(lambda x, y: x * y.shape[0] ** 3 + y.sum(), 2)
    shapes = ({}, {0: Dim("n", min=2)})
    y = torch.ones(4)
    model = aotpack.compile(function, (y, y), target="interpreter", dynamic_shapes=shapes)
    for n in (2, 4, 9):
        given = torch.ones(4), torch.ones(n)
        torch.testing.assert_close(model(*given), function(*given))
    huge = torch.ones(1).expand(2**21)
    with pytest.raises(ArgumentError, match=r"sizes are n_? = 2097152; accepted: .*<= 2\*\*63 - 1"):
        model(torch.ones(4), huge.contiguous())


def test_a_count_divides_where_it_is_not_0() -> None:
    def mean(x: Tensor) -> Tensor:
        found = x[x > 0]
        return found.sum() * (1 / found.shape[0])

    x = torch.tensor([1.0, -2.0, 3.0])
    model = aotpack.compile(Function(mean, 1), (x,), target="interpreter")
    torch.testing.assert_close(model(x), torch.tensor(2.0))
    with pytest.raises(ZeroDivisionError):
        mean(-x.abs())
    with pytest.raises(AssertionFailed, match="u0 = 0; accepted: sizes with u0 != 0"):
        model(-x.abs())


def test_comparisons_of_data_are_conditions() -> None:
    def same(x: Tensor) -> Tensor:
        rows = x[x > 0]
        return rows.sum() * 2 if (rows.shape[0] == 3) is True else rows.sum()

    with pytest.raises(TraceError, match=r"is True or False itself(.|\n)*test_numbers.py:\d+: ret"):
        aotpack.compile(Function(same, 1), (torch.ones(5),), target="interpreter")

    def chosen(x: Tensor, flag: bool = True) -> Tensor:
        rows = x[x > 0]
        one = torch.cond(rows.shape[0] == 3, lambda r: r.sum() * 2, lambda r: r.sum(), (rows,))
        return one + 1 if flag is True else one

    x = torch.tensor([1.0, -2.0, 3.0, 4.0])
    model = aotpack.compile(Function(chosen, 1), (x,), target="interpreter")
    torch.testing.assert_close(model(x), chosen(x))
    torch.testing.assert_close(model(-x), chosen(-x))


def test_checks_beside_an_identity_are_conditions() -> None:
    def part(x: Tensor, y: Tensor, flag: bool = False) -> Tensor:
        n = y.item()
        torch._check(n >= 0)
        torch._check(n <= 3)
        torch._check(n != -1)
        return (x + 1 if flag is True else x)[:n]  # type: ignore[misc]

    x, y = torch.rand(5), torch.tensor(2)
    model = aotpack.compile(Function(part, 2), (x, y), target="interpreter")
    torch.testing.assert_close(model(x, y), part(x, y))


def test_positions_of_counts_are_checked_in_calls() -> None:
    table = torch.rand(64, 4)

    def read(x: Tensor) -> Tensor:
        return table[torch.arange(torch.nonzero(x > 0).shape[0]) * 2]

    x = torch.tensor([1.0, -1.0, 2.0])
    model = aotpack.compile(Function(read, 1), (x,), target="interpreter")
    torch.testing.assert_close(model(x), read(x))
