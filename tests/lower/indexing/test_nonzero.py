"""Positions of what is not zero."""

import pytest
import torch

from tests.lower.oracle import Case, case, floats, ints

SOME = (floats(3, 4) > 0).float()

CASES = [
    case("nonzero_static.default", SOME, size=20),
    case("nonzero_static.default", SOME, size=3, fill_value=7),
    case("nonzero_static.default", SOME > 0, size=12),
    case("nonzero_static.default", torch.tensor([0.0, float("nan"), -0.0, 2.0]), size=4),
    case("nonzero_static.default", ints(40), size=40),
    case("nonzero_static.default", ints(2, 0), size=2),
    case("nonzero_static.default", SOME, size=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
