"""Floats that are computed from sizes, and sizes that are rounded floats of sizes."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatPow,
    FloorToInt,
    IntTrueDiv,
    ToFloat,
    TruncToInt,
)

import aotpack
from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, Var
from aotpack.runtime.errors import AssertionFailed
from aotpack.trace.sizes import whole_number
from tests.e2e.oracle import agree, compile_all

SIZES = (4, 5, 13, 40)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def each(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Powers, products and quotients of a size, as operands and as options."""
    n = x.shape[0]
    return (
        x * n**-0.5,
        x.bfloat16() * n**-0.5,
        x / (n * 0.5 + 1),
        torch.add(x, x, alpha=1 / n),
        torch.full((3,), 1.0 / n),
        x.clamp(max=n / 10),
        x.abs() ** (1 / n),
        torch.arange(n) * (1.0 / n),
    )


def negative(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Divisors below 0, as of a range that falls in steps."""
    n = x.shape[0]
    return (
        torch.arange(n, 0, -2),
        torch.arange(0, -n, -3),
        x[torch.arange(n - 1, -1, -2)],
        x + n // -2,
        x * (n % -7),
        x[: -n % 5],
        x[-(n // -2) :],
        x.new_zeros(-(n // -3)),
    )


def resized(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    image = x[None, None]
    nearest = F.interpolate(image, scale_factor=1.5, mode="nearest")
    return nearest, F.interpolate(image, scale_factor=0.5, mode="bicubic", antialias=True)


@pytest.mark.row("C:D4")
@pytest.mark.parametrize("function", [each, resized, negative])
def test_agrees_with_eager(function: Callable[..., Any]) -> None:
    shapes = ({0: Dim("n", min=4, max=40)},)
    compiled = compile_all(Function(function), (torch.randn(6, 5),), None, shapes)
    for size in SIZES:
        agree(compiled, (torch.randn(size, 5),))


@pytest.mark.parametrize(
    ("function", "least", "found"),
    [
        (lambda x: x * (10 // (x.shape[0] - 4)), 4, "n_ - 4, which is 0 for n_=4"),
        (lambda x: x * (10 // (x.shape[0] - 20)), 4, "n_ - 20, which is -16 for n_=4"),
        (lambda x: x * (10 % (x.shape[0] - 20)), 4, "n_ - 20, which is -16 for n_=4"),
    ],
)
def test_a_divisor_that_may_be_0_is_refused(
    function: Callable[..., Any], least: int, found: str
) -> None:
    shapes = ({0: Dim("n", min=least, max=40)},)
    with pytest.raises(UnsupportedError, match=f"a size is divided by {found}; accepted are"):
        aotpack.compile(Function(function), (torch.randn(25),), dynamic_shapes=shapes, target="cpu")


def test_a_divisor_that_data_decide() -> None:
    model = Function(lambda x: x * (10 // (x > 0).nonzero().shape[0]))
    shapes = ({0: Dim("n", min=1, max=40)},)
    package = aotpack.compile(model, (torch.ones(25),), dynamic_shapes=shapes, target="cpu")
    for size in (1, 3, 40):
        torch.testing.assert_close(package(torch.ones(size)), model(torch.ones(size)))
    with pytest.raises(AssertionFailed, match=r"u0 = 0; accepted: sizes with u0 >= 1"):
        package(-torch.ones(3))


FACTORS = (0.5, 1.5, 0.1, 0.3333333333333333, 2.6, 1 / 7)
ROUNDINGS = {TruncToInt: np.trunc, FloorToInt: np.floor, CeilToInt: np.ceil}


@pytest.mark.row("C:D4")
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=lambda kind: kind.__name__)
def test_a_rounded_float_is_the_integer_that_float64_gives(rounding: Any, factor: float) -> None:
    symbol, size = sympy.Symbol("s", integer=True, positive=True), Var("s", 1, 3000)
    convert = {symbol: Int.of(size)}.__getitem__
    product = whole_number(rounding(sympy.Float(factor) * ToFloat(symbol)), convert)
    number = Fraction(factor).limit_denominator(9).denominator
    quotient = whole_number(rounding(IntTrueDiv(symbol, sympy.Integer(number))), convert)
    for value in (1, 2, 3, 10, 70, 490, 999, 2999, 3000):
        assert product.evaluate({"s": value}) == ROUNDINGS[rounding](factor * value)
        assert quotient.evaluate({"s": value}) == ROUNDINGS[rounding](value / number)


@pytest.mark.parametrize(
    ("factor", "high", "message"),
    [
        (0.1, LARGEST_SIZE, "declare a smaller maximum"),
        (-0.5, 9, "positive sizes and factors"),
        (0.7, 3000, "no fraction of small numbers"),  # float64 gives 62 for 0.7 * 90
        (0.123456789, 10**6, "no fraction of small numbers"),
    ],
)
def test_refuses_what_no_fraction_gives(factor: float, high: int, message: str) -> None:
    symbol = sympy.Symbol("s", integer=True, positive=True)
    expr = TruncToInt(sympy.Float(factor) * ToFloat(symbol))
    with pytest.raises(UnsupportedError, match=message):
        whole_number(expr, lambda _: Int.of(Var("s", 1, high)))


def test_refuses_a_rounded_root_of_a_size() -> None:
    symbol = sympy.Symbol("s", integer=True, positive=True)
    with pytest.raises(UnsupportedError, match=r"rounded from a float .*a number times a size"):
        whole_number(TruncToInt(FloatPow(ToFloat(symbol), 0.5)), lambda _: Int.of(Var("s", 1, 9)))


class EmptyPart(nn.Module):
    """Rows that are none for some sizes, rolled, and read beside others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        return F.pad(x[m // 2 : n // 2].roll(1, 0), (0, 0, 1, 1)).sin()


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_an_index_is_divided_by_no_size_of_0(target: str) -> None:
    shapes = ({0: Dim("a", min=2, max=40), 1: Dim("c", min=2, max=40)},)
    model = aotpack.compile(EmptyPart(), (torch.randn(6, 5),), target=target, dynamic_shapes=shapes)
    for sizes in ((2, 2), (3, 2), (9, 4), (4, 9), (40, 2), (40, 40)):
        x = torch.randn(sizes)
        torch.testing.assert_close(model(x), EmptyPart()(x))
