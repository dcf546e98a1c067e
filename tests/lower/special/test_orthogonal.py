"""Hermite, Laguerre and Legendre polynomials: degrees from below zero, within and beyond one."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case

POINTS = torch.cat([torch.linspace(-0.9, 0.9, 19), torch.tensor([0.0, 1.0, -1.0])]).double()
NAMES = [
    f"special_{name}"
    for name in (
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
]
CASES = [
    *(case(f"{name}.n_scalar", POINTS, n) for name in NAMES for n in (-1, 0, 1, 2, 9)),
    *(case(f"{name}.n_scalar", POINTS.float(), 5) for name in NAMES),
    *(case(f"{name}.n_scalar", 3 * POINTS, 4) for name in NAMES[:3]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("overload", "degree", "message"),
    [
        ("n_scalar", 65, "its degree is 65; up to 64 are accepted"),
        ("default", torch.tensor(3), "its degree is a tensor; a number is accepted"),
    ],
)
def test_refuses(overload: str, degree: object, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        case(f"{NAMES[3]}.{overload}", POINTS, degree).check()
