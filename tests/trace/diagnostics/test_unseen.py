"""Questions about a dynamic size that torch.export sees nothing of are asked at other sizes."""

from collections.abc import Callable
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


ASKED = [by_digits, by_format, by_shape, by_answer, by_type, by_export]


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
