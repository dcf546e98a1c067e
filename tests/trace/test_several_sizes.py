"""Conditions on several sizes: each is compared where its answer is another, which is rare."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Mod

import aotpack
from aotpack.errors import TraceError
from aotpack.trace.diagnostics.evaluated import truths

Condition = Callable[[Any, Any], Any]

ROWS = {
    "linear": (lambda b, t: t == 8 * b + 100, "b=1, t=108"),
    "a sum": (lambda b, t: 4 * t + b == 1000, "b=4, t=249"),
    "a product": (lambda b, t: b * t == 8100, r"b=\d+, t=\d+"),
}
VECTORS = {
    "a sum": (lambda n, m: n + m == 512, r"n_?=\d+, m_?=\d+"),
    "linear": (lambda n, m: n == 7 * m + 3, "n_?=17, m_?=2"),
    "a quotient": (lambda n, m: n // m == 13, "n_?=26, m_?=2"),
    "a large product": (lambda n, m: n * m == 143 * 143, r"n_?=\d+, m_?=\d+"),
    "rounded up": (lambda n, m: -(-n // m) == 9, "n_?=17, m_?=2"),
    "squares": (lambda n, m: n * n + m * m == 625, "n_?=24, m_?=7|n_?=7, m_?=24"),
    "two": (lambda n, m: n - m == 590 and n % 7 == 4, r"n_?=\d+, m_?=\d+"),
}


class OfRows(nn.Module):
    """``other`` where a condition on the sizes of one tensor holds, else twice the tensor."""

    def __init__(self, condition: Condition, factor: int) -> None:
        super().__init__()
        self.condition, self.factor = condition, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor if self.condition(*x.shape) else x + x


class OfVectors(OfRows):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x * self.factor if self.condition(x.shape[0], y.shape[0]) else x + x


def of_rows(condition: Condition, factor: int, most: int = 2048) -> Any:
    dims = {0: Dim("b", min=1, max=64), 1: Dim("t", min=1, max=most)}
    return aotpack.compile(
        OfRows(condition, factor),
        (torch.ones(3, 50),),
        target="interpreter",
        dynamic_shapes=(dims,),
    )


def of_vectors(condition: Condition, factor: int, most: int | None = 5000) -> Any:
    dims = [{0: Dim(name, min=2, max=most)} for name in ("n", "m")]
    return aotpack.compile(
        OfVectors(condition, factor),
        (torch.ones(41), torch.ones(53)),
        target="interpreter",
        dynamic_shapes=tuple(dims),
    )


@pytest.mark.parametrize(("condition", "case"), ROWS.values(), ids=ROWS)
def test_the_sizes_of_one_tensor(condition: Condition, case: str) -> None:
    with pytest.raises(TraceError, match=f"another function than the model: where {case},"):
        of_rows(condition, 3)
    assert of_rows(condition, 2)


@pytest.mark.parametrize(("condition", "case"), VECTORS.values(), ids=VECTORS)
def test_the_sizes_of_two_tensors(condition: Condition, case: str) -> None:
    with pytest.raises(TraceError, match=f"another function than the model: where ({case}),"):
        of_vectors(condition, 3)
    assert of_vectors(condition, 2)


@pytest.mark.parametrize("condition", [lambda n, m: n - m == 777, lambda n, m: n * m == 8100])
def test_ranges_without_ends(condition: Condition) -> None:
    with pytest.raises(
        TraceError, match=r"another function than the model: where n_?=\d+, m_?=\d+"
    ):
        of_vectors(condition, 3, most=None)
    assert of_vectors(condition, 2, most=None)


def test_ranges_without_a_solution() -> None:
    package = of_rows(lambda b, t: b * t == 8100, 3, most=100)
    assert torch.equal(package(torch.ones(2, 9)), torch.full((2, 9), 2.0))


@pytest.mark.parametrize(
    "condition",
    [
        lambda b, t: b == 1 and t * t == 8100,
        lambda b, t: t == 8 * b + 100 and b == 13,
        lambda b, t: t == 8 * b + 100 and t % 71 == 0,
    ],
)
def test_conditions_behind_conditions(condition: Condition) -> None:
    with pytest.raises(TraceError, match=r"another function than the model: where b=\d+, t=\d+"):
        of_rows(condition, 3)
    assert of_rows(condition, 2)


def test_a_condition_on_two_sizes_beside_one_of_1() -> None:
    class Cube(nn.Module):
        def __init__(self, factor: int) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, t, c = x.shape
            return x * self.factor if b == 1 and t * c == 2025 else x + x

    dims = {k: Dim(name, min=1, max=200) for k, name in enumerate(("b", "t", "c"))}
    given: Any = {"target": "interpreter", "dynamic_shapes": (dims,)}
    with pytest.raises(TraceError, match="another function than the model: where b=1, t="):
        aotpack.compile(Cube(3), (torch.ones(3, 50, 4),), **given)
    assert aotpack.compile(Cube(2), (torch.ones(3, 50, 4),), **given)


def test_sizes_that_are_too_large_to_run() -> None:
    words = r"(?s)asks for Eq\(.*, 1073741824\), in .*another where n_?=\d+, m_?=\d+: .* too large"
    with pytest.raises(TraceError, match=words):
        of_vectors(lambda n, m: n + m == 2**30, 3, most=None)
    assert of_vectors(lambda n, m: n + m == 2**30, 3, most=2**28)


def test_truths_are_those_of_sympy() -> None:
    n, m = sympy.symbols("n m", integer=True, positive=True)
    sizes = np.arange(1, 40)
    for condition in (
        sympy.And(n > m, sympy.Eq(Mod(n, 7), 3)),
        sympy.Or(n < 5, sympy.Ne(FloorDiv(n, m), 2)),
        sympy.Not(sympy.Eq(n, 8 * m + 5)),
    ):
        for other in (1, 4, 9):
            found = truths(condition, {n: sizes, m: other})
            exact = [bool(condition.subs({n: int(k), m: other})) for k in sizes]
            assert found.tolist() == exact
    assert truths(sympy.Gt(sympy.sqrt(n), m), {n: sizes, m: 2}) is None
