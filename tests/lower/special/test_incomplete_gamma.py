"""The incomplete gamma functions beside mpmath, in each region and on both sides of its borders."""

import itertools
from functools import cache

import mpmath
import numpy as np
import pytest
import torch

from aotpack.lower.special.temme import coefficients
from aotpack.trace.golden.meanings import MEANINGS
from tests.lower.oracle import Case, call, case

INF, NAN = float("inf"), float("nan")
ENDS = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, 30.0, 200.0, 1e30])
FUNCTIONS = ("igamma", "igammac")
RATIOS = [0.02, 0.3, 0.499, 0.501, 0.9, 1 - 1e-9, 1, 1 + 1e-7, 1.1, 1.499, 1.501, 4.0]
FIRST = [1e-12, 1e-3, 0.2, 0.499, 0.501, 1, 1.3, 5.5, 10.9, 11.1, 19.9, 20, 20.1, 77, 431, 3e3]
SMALL = [1e-300, 1e-9, 0.01, 0.499, 0.501, 1.0, 1.499, 1.501, 3.0]
PAIRS = [(a, a * ratio) for a in FIRST for ratio in RATIOS]
PAIRS += [(a, 5e-324) for a in (5e-324, 1e-300, 1e-9, 0.01)]
PAIRS += list(itertools.product([1e-15, 1e-5, 0.01, 0.3, 0.8, 1.2, 2.5], SMALL))


@cache
def exact(name: str, a: float, x: float) -> float:
    """The function by 40 digits."""
    with mpmath.workdps(40):
        if name == "igammac":
            return float(mpmath.gammainc(a, x, regularized=True))
        series = mpmath.hyp1f1(1, a + mpmath.mpf(1), x, maxterms=10**6)
        return float(mpmath.mpf(x) ** a * mpmath.exp(-x) / mpmath.gamma(a + mpmath.mpf(1)) * series)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_regions_are_right_to_the_last_places(name: str) -> None:
    a, x = torch.tensor(PAIRS, dtype=torch.float64).T
    ((ours,), _) = call(f"aten.{name}.default", a, x)
    wanted = np.array([exact(name, *pair) for pair in PAIRS])
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=2e-15)
    kept = wanted > 1e-280  # rounding the exponent of a small result costs places of it
    np.testing.assert_allclose(ours[kept], wanted[kept], rtol=1.5e-13, atol=0)
    usual = wanted > 1e-6
    np.testing.assert_allclose(ours[usual], wanted[usual], rtol=8e-15, atol=0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reference_of_builds_is_right_where_eager_is_not(name: str) -> None:
    a, x = torch.tensor(PAIRS, dtype=torch.float64).T
    wanted = torch.tensor([exact(name, *pair) for pair in PAIRS], dtype=torch.float64)
    operator = getattr(torch.ops.aten, name).default
    assert (MEANINGS[operator](a, x) - wanted).abs().max() < 1e-14
    assert (operator(a, x) - wanted).abs().max() > 1e-11


@pytest.mark.row("C:E27", "C:E4")
@pytest.mark.parametrize(
    "case",
    [
        case(f"{name}.default", ends[:, None].to(dtype), ends.to(dtype))
        for name in FUNCTIONS
        for ends, dtype in [
            *((ENDS, dtype) for dtype in (torch.float32, torch.float64, torch.bfloat16)),
            (ENDS[:-1], torch.float16),
        ]
    ],
    ids=str,
)
def test_ends_are_eager_s(case: Case) -> None:
    case.check()


def test_the_coefficients_are_those_of_the_literature() -> None:
    """DLMF 8.12.12 to 8.12.14: the values at 0, and the first slope."""
    rows = coefficients()
    assert [row[0] for row in rows[:3]] == [-1 / 3, -1 / 540, 25 / 6048]
    assert rows[0][1] == 1 / 12 and len(rows) == 11
