"""Chebyshev polynomials: within and beyond one, at the ends, of all signs and degrees."""

import pytest
import torch

from tests.lower.oracle import Case, case

POINTS = torch.cat([torch.linspace(-3, 3, 49), torch.tensor([-1.0, 0.0, 1.0])]).double()
DEGREES = torch.arange(-2, 12).double()[:, None]
NAMES = [
    f"special_{kind}chebyshev_polynomial_{form}" for kind in ("", "shifted_") for form in "tuvw"
]

CASES = [
    *(case(f"{name}.default", POINTS, DEGREES) for name in NAMES),
    *(
        case(f"{name}.default", POINTS.float(), torch.tensor([0, 1, 2, 5])[:, None])
        for name in NAMES
    ),
    *(case(f"{name}.n_scalar", POINTS, 7) for name in NAMES),
    *(case(f"{name}.x_scalar", 0.3, DEGREES) for name in NAMES),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
