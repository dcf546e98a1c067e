"""Checks of counted sizes beside dynamic ones: what the model admits is admitted, and no more."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError

Check = Callable[[int, int], None]


class Cache(nn.Module):
    """Rows are written from a position on that data give."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check
        self.register_buffer("rows", torch.zeros(8, 3))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start = position.item()
        torch._check(start >= 0)
        self.check(start, x.shape[0])
        self.rows[start : start + x.shape[0]] = x
        return self.rows * 1


def fits(start: int, count: int) -> None:
    torch._check(start + count <= 8)


def before_the_last(start: int, count: int) -> None:
    fits(start, count)
    torch._check(start <= 6)  # follows from the line before, for 2 rows or more


def behind_as_many(start: int, count: int) -> None:
    fits(start, count)
    torch._check(start >= count)


def short_of(start: int, count: int) -> None:
    torch._check(2 * start + count < 13)


def few_together(start: int, count: int) -> None:
    fits(start, count)
    torch._check(start * count <= 12)


def answer_or_refusal(
    model: Any, eager: nn.Module, args: tuple[torch.Tensor, ...]
) -> torch.Tensor | None:
    """What eager gives; None where it refuses the call, as the model must."""
    try:
        answer: torch.Tensor = eager(*args)
    except RuntimeError:
        with pytest.raises(AotpackError):
            model(*args)
        return None
    return answer


CHECKS = (fits, before_the_last, behind_as_many, short_of, few_together)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_positions_beside_dynamic_sizes(*, check: Check, strict: bool) -> None:
    example = torch.randn(2, 3), torch.tensor(3)
    shapes = {"x": {0: Dim("n", min=1, max=5)}, "position": None}
    model = aotpack.compile(
        Cache(check), example, dynamic_shapes=shapes, target="interpreter", strict=strict
    )
    eager = Cache(check)
    for count, start in itertools.product((1, 2, 5), range(-1, 10)):
        args = torch.randn(count, 3), torch.tensor(start)
        expected = answer_or_refusal(model, eager, args)
        assert expected is None or torch.equal(model(*args), expected), (count, start)


def less_one(x: torch.Tensor, u: int) -> torch.Tensor:
    torch._check(u == x.shape[0] - 1)
    return x.new_ones(u) * 2 + x.sum()


def one_more(x: torch.Tensor, u: int) -> torch.Tensor:
    torch._check(u + 1 == x.shape[0])
    return x[:u] + x[1:]


def the_same(x: torch.Tensor, u: int) -> torch.Tensor:
    torch._check(u == x.shape[0])
    return x * u


def half(x: torch.Tensor, u: int) -> torch.Tensor:
    torch._check(u == x.shape[0] // 2)
    return x[:u] * 2


def four(x: torch.Tensor, u: int) -> torch.Tensor:
    torch._check(u == 4)
    return x[:1] * u


class Equal(nn.Module):
    """torch puts the size in place of the number that data give."""

    def __init__(self, function: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return self.function(x, number.item())


EQUAL = {less_one: 4, one_more: 4, the_same: 5, half: 2, four: 4}


@pytest.mark.parametrize("function", EQUAL, ids=lambda function: function.__name__)
def test_numbers_that_equal_sizes(function: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
    example = torch.randn(5), torch.tensor(EQUAL[function])
    shapes = {"x": {0: Dim("n", min=1, max=8)}, "number": None}
    model = aotpack.compile(Equal(function), example, dynamic_shapes=shapes, target="interpreter")
    eager = Equal(function)
    for count, number in itertools.product((1, 2, 5), range(-1, 7)):
        args = torch.randn(count), torch.tensor(number)
        expected = answer_or_refusal(model, eager, args)
        if expected is not None:
            torch.testing.assert_close(model(*args), expected)


class Steps(nn.Module):
    """As many elements as a number from data times a size; each second one is changed."""

    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        count = number.item()
        torch._check(count >= 0)
        made = torch.zeros(count * x.shape[1])
        made[::2] = 3
        return made


def test_a_product_of_a_number_from_data_and_a_size() -> None:
    example = torch.randn(4, 3), torch.tensor(4)
    shapes = ({1: Dim("n", min=1, max=5)}, None)
    model = aotpack.compile(Steps(), example, dynamic_shapes=shapes, target="cpu")
    for count, number in itertools.product((1, 2, 5), range(-1, 5)):
        args = torch.randn(4, count), torch.tensor(number)
        expected = answer_or_refusal(model, Steps(), args)
        assert expected is None or torch.equal(model(*args), expected), (count, number)
