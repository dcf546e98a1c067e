"""Questions about a dynamic size that torch.export sees nothing of are asked at other sizes."""

from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from tests.e2e.models import Function

X = torch.rand(6, 4)
RANGES = [pytest.param(low, id=f"from {low}") for low in (1, 2)]


def by_digits(x: Tensor) -> Tensor:
    return x * 2 if "0" in str(x.shape[0]) else x * 3


def by_format(x: Tensor) -> Tensor:
    return x * 2 if f"{x.shape[0]} rows" == "9 rows" else x * 3


def by_shape(x: Tensor) -> Tensor:
    return x * 2 if "17" in f"of {tuple(x.shape)}" else x * 3


def by_answer(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x * 2 if str(n % 7 == 5) == "True" else x * 3


def by_type(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x * 2 if type(n) is int and n > 8 else x * 3


def by_export(x: Tensor) -> Tensor:
    is_long = not torch.compiler.is_exporting() and x.shape[0] > 8
    return x * 2 if is_long else x * 3


class Bucket(IntEnum):
    SHORT = 8
    LONG = 41


TABLE = {"41": 2.0}


def by_member(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] == Bucket.LONG else x * 3


def by_members(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] in list(Bucket) else x * 3


def by_case(x: Tensor) -> Tensor:
    match x.shape[0]:
        case Bucket.LONG:
            return x * 2
    return x * 3


def by_fraction(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] == Fraction(41) else x * 3


def by_decimal(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] / 2 == Decimal("20.5") else x * 3


def by_complex(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] == complex(41) else x * 3


def by_tuple(x: Tensor) -> Tensor:
    return x * 2 if x.shape == (Bucket.LONG, 4) else x * 3


COMPARED = [by_member, by_members, by_case, by_fraction, by_decimal, by_complex, by_tuple]


def by_identity(x: Tensor) -> Tensor:
    return x * 2 if (x.shape[0] == 41) is True else x * 3


def by_truth(x: Tensor) -> Tensor:
    match x.shape[0] == 41:
        case True:
            return x * 2
    return x * 3


def by_type_and_number(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x * 2 if type(n) is int and n == 41 else x * 3


def by_export_and_number(x: Tensor) -> Tensor:
    return x * 2 if not torch.compiler.is_compiling() and x.shape[0] == 41 else x * 3


def by_text_in_the_middle(x: Tensor) -> Tensor:
    return x * TABLE.get(str(x.shape[0]), 3.0)


HIDDEN = [
    *(by_identity, by_truth),
    *(by_type_and_number, by_export_and_number, by_text_in_the_middle),
]
ASKED = [*HIDDEN, by_digits, by_format, by_shape, by_answer, by_type, by_export]


def built(forward: Callable[[Tensor], Tensor], low: int) -> Any:
    shapes = ({0: Dim("rows", min=low, max=64)},)
    return aotpack.compile(Function(forward, 1), (X,), dynamic_shapes=shapes, target="interpreter")


@pytest.mark.parametrize("low", RANGES)
@pytest.mark.parametrize("forward", ASKED, ids=lambda one: one.__name__)
def test_an_answer_of_another_size_is_refused(
    forward: Callable[[Tensor], Tensor], low: int
) -> None:
    words = r"where rows_?=\d+, output0 differs(.|\n)*\n  at test_unseen.py(.|\n)*look for str\(n\)"
    with pytest.raises(TraceError, match=words):
        built(forward, low)


@pytest.mark.parametrize("low", RANGES)
@pytest.mark.parametrize("forward", COMPARED, ids=lambda one: one.__name__)
def test_numbers_of_all_kinds_are_compared(forward: Callable[[Tensor], Tensor], low: int) -> None:
    with pytest.raises(TraceError, match="right only for some of the sizes(.|\n)*!= (41|20.5)"):
        built(forward, low)


@pytest.mark.parametrize("low", RANGES)
@pytest.mark.parametrize("number", [Bucket.LONG, Fraction(83, 2), Decimal("NaN"), 1j, "41"])
def test_a_comparison_that_decides_nothing_is_accepted(number: Any, low: int) -> None:
    model = built(lambda x: x * 3 if (x.shape[0] == number) is True else x + x * 2, low)
    for rows in (low, 41, 64):
        assert torch.equal(model(torch.ones(rows, 4)), torch.full((rows, 4), 3.0))


def test_a_size_is_rounded_to_tens_in_words() -> None:
    words = r"round\(n, -1\) of a dynamic size(.|\n)*\(n \+ 5\) // 10 \* 10"
    with pytest.raises(TraceError, match=words):
        built(lambda x: x * round(x.shape[0], -1), 2)
    model = built(lambda x: x * round(x.shape[0], 1) + round(x.shape[0]), 2)
    assert torch.equal(model(X), X * 6 + 6)


@pytest.mark.parametrize("low", RANGES)
def test_a_text_that_decides_nothing_is_accepted(low: int) -> None:
    def forward(x: Tensor) -> Tensor:
        assert f"{x.shape[0]} rows of {tuple(x.shape)}".endswith(")")
        return x * 3

    model = built(forward, low)
    for rows in (low, 10, 64):
        x = torch.rand(rows, 4)
        assert torch.equal(model(x), x * 3)


def test_a_fixed_size_has_its_text() -> None:
    model = aotpack.compile(Function(by_digits, 1), (torch.rand(10, 4),), target="interpreter")
    assert torch.equal(model(torch.ones(10, 4)), torch.full((10, 4), 2.0))


@pytest.mark.parametrize("limit", [40, 10**6, 2**40])
def test_a_branch_of_the_program_may_turn_at_any_size(limit: int) -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > limit, lambda x: x * 2, lambda x: x * 3, (x,))

    shapes = ({0: Dim("s", min=2)},)
    model = aotpack.compile(Function(forward, 1), (X,), dynamic_shapes=shapes, target="interpreter")
    for rows in (2, 40, 41):
        assert torch.equal(
            model(torch.ones(rows, 4))[0, 0], torch.tensor(2.0 if rows > limit else 3)
        )
