"""Conditions that round floats are proved for whole ranges, and not where a size breaks them."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, Var
from aotpack.trace.diagnostics.intervals import is_broken, is_proved

SHORT, LONG = Var("a", 1, 300), Var("a", 1, LARGEST_SIZE)
FLOOR, CEIL = "math.floor(0.6*torch.sym_float(n))", "math.ceil(0.6*torch.sym_float(n))"
HOLD = [
    f"{FLOOR} >= 0 and {FLOOR} <= n",
    f"{CEIL} >= 1 and not {CEIL} > n",
    f"n + (-1)*{FLOOR} >= 1",
    f"min({FLOOR}, 7) < 8 or {CEIL} == 3",
    "round(0.5*torch.sym_float(n)) <= n < 3 + 3*n",
    "math.floor(torch.sym_float(n) / 3) * 2 != n + 1",
    "n % 4 <= math.ceil(torch.sym_float(n) / 1.5) + 2",
    "(n // 2) <= math.ceil(0.75*torch.sym_float(n))",
]
FAIL = [
    f"{FLOOR} != 1",
    f"{FLOOR} >= 1",
    f"{CEIL} < n",
    "math.floor(0.01*torch.sym_float(n)) != 2",
    "n % 4 <= math.floor(0.5*torch.sym_float(n))",
    "math.trunc(0.6*torch.sym_float(n)) == 9",
]


def truth(condition: str, n: int) -> bool:
    """What Python says."""
    return bool(eval(condition, {"math": math, "torch": torch, "n": n}))


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("condition", HOLD)
@pytest.mark.parametrize("variable", [SHORT, LONG], ids=["short", "long"])
def test_what_holds_is_proved(condition: str, variable: Var) -> None:
    assert is_proved(condition, {"n": Int.of(variable)})
    assert all(truth(condition, n) for n in range(1, 601))


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("condition", FAIL)
@pytest.mark.parametrize("variable", [SHORT, LONG], ids=["short", "long"])
def test_what_fails_for_one_size_is_not_proved(condition: str, variable: Var) -> None:
    sizes = {"n": Int.of(variable)}
    assert not is_proved(condition, sizes)
    shown = [n for n in range(1, 301) if is_broken(condition, sizes, {"a": n})]
    assert shown and not any(truth(condition, n) for n in shown)


@pytest.mark.parametrize(
    "condition",
    [
        "math.floor(0.6*torch.sym_float(n)) <= m",
        "math.floor(torch._sym_sqrt(n)) >= 0",
        "math.floor(2.0*torch.sym_float(n)) // 0.5 >= 0",
        "math.floor(torch.sym_float(n) / (n - 3)) <= n",
        "math.floor(0.5*torch.sym_float(n",
        "min(max(0.6*torch.sym_float(n), 3), 7) % 4 <= 3",  # 3.6 too, between integers
        "min(max(0.6*torch.sym_float(n), 3), 7) // 2 >= 1",
        "round(torch.sym_float(n), 0 - n % 3) <= 10**9",
        "torch.sym_float(n) * 1e308 * 1e308 * 0.0 <= 1.0",
        "math.floor(torch.sym_float(n), n) >= 0",
        "math.floor(0.2*torch.sym_float(n)) * 5 >= n - 4",  # the factor is a little more, or less
    ],
)
def test_what_is_not_known_is_not_proved(condition: str) -> None:
    assert not is_proved(condition, {"n": Int.of(SHORT)})


def test_two_sizes() -> None:
    sizes = {"n": Int.of(LONG), "m": Int.of(LONG) + Int.of(Var("b", 1, 9))}
    assert is_proved("math.floor(0.6*torch.sym_float(n)) < m", sizes)
    assert not is_proved("math.floor(1.6*torch.sym_float(n)) < m", sizes)


PARTS = {
    "first": lambda x: x[: math.floor(0.6 * x.shape[0])] * 2,
    "last": lambda x: x[math.ceil(0.7 * x.shape[0]) :] * 2,
    "both": lambda x: torch.cat([x[x.shape[0] - math.floor(x.shape[0] / 3) :], x * 2]),
}


@pytest.mark.row("S:T13")
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize(("high", "more"), [(40, 0), (2**20, 0), (40, 1)])
def test_a_part_of_a_derived_size(part: Callable[..., Any], high: int, more: int) -> None:
    model = type("Part", (nn.Module,), {"forward": lambda self, x: part(x)})()
    sizes = {"x": {0: 2 * Dim("a", min=2, max=high) + more}}
    x = torch.randn(12 + more, 3)
    package = aotpack.compile(model, (x,), dynamic_shapes=sizes, target="cpu")
    for n in range(4, 81, 2):
        x = torch.randn(n + more, 3)
        torch.testing.assert_close(package(x), part(x))


@pytest.mark.row("S:T13")
def test_a_branch_on_a_part_is_refused(trace_function):
    message = r"math\.floor\(0\.6\*torch\.sym_float\(\(2\*a\)\)\) > 5  \(not for a=2\)"
    with pytest.raises(TraceError, match=message):
        trace_function(
            lambda self, x: x * 2 if math.floor(0.6 * x.shape[0]) > 5 else x * 3,
            torch.randn(12, 3),
            dynamic_shapes={"x": {0: 2 * Dim("a", min=2, max=40)}},
        )


def test_round_of_a_size_is_refused(trace_function):
    with pytest.raises(UnsupportedError, match=r"in place of round\(0\.6 \* n\) are math\.floor"):
        trace_function(
            lambda self, x: x[: round(0.6 * x.shape[0])] * 2,
            torch.randn(12, 3),
            dynamic_shapes={"x": {0: Dim("n", min=2, max=40)}},
        )
