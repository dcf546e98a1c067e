"""Special functions: of ordinary numbers, and at their poles, ends and branch points."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case

INF, NAN = float("inf"), float("nan")
LINE = torch.linspace(-9.3, 9.7, 97)
POSITIVE = torch.linspace(0.05, 20, 83)
UNIT = torch.linspace(0.001, 0.999, 67)
ENDS = torch.tensor([0.0, 1.0, -1.0, INF, NAN, 1e-30, 30.0])
HALF_OPEN = torch.tensor([0.0, 1.0, -1.0, NAN, 1e-30, 30.0])
DENORMAL = torch.tensor([0.0, 3e-45, -1e-45, 1e-42, 1e-38, 1e-31, 1e-29])

EXPONENTS = torch.tensor([1.0, 1.01, 1.9, 2.0, 3.0, 7.0, 20.0, 61.5]).double()
STARTS = torch.tensor([0.0, 0.02, 0.7, 1, 9.5, 30, 1e5, 1e9, -0.3, -1, -3.5, -40.25, NAN]).double()

EVERYWHERE = (
    "i0 special_i0e special_i1 special_i1e special_modified_bessel_i0 special_modified_bessel_i1"
    " special_bessel_j0 special_bessel_j1 special_log_ndtr special_ndtr"
).split()
ABOVE_ZERO = (
    "special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1"
    " special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_entr"
).split()

CASES = [
    *(case(f"{name}.default", LINE) for name in EVERYWHERE),
    *(case(f"{name}.default", LINE.bfloat16()) for name in ("i0", "special_i0e")),
    *(case(f"{name}.default", ENDS) for name in EVERYWHERE),
    *(case(f"{name}.default", POSITIVE) for name in ABOVE_ZERO),
    *(case(f"{name}.default", HALF_OPEN) for name in ABOVE_ZERO),
    *(case(f"{name}.default", LINE.double()) for name in EVERYWHERE),
    *(case(f"{name}.default", POSITIVE.double()) for name in ABOVE_ZERO),
    *(case(f"{name}.default", DENORMAL) for name in ABOVE_ZERO),
    case("special_modified_bessel_k0.default", torch.tensor([1e-45])),
    case("special_airy_ai.default", LINE.double()),
    case("special_airy_ai.default", torch.linspace(-20, 110, 79)),
    case("special_spherical_bessel_j0.default", torch.cat([LINE, ENDS])),
    case("special_erfcx.default", torch.cat([torch.linspace(-6, 30, 61), ENDS])),
    case("erfinv.default", torch.cat([2 * UNIT - 1, ENDS])),
    case("erfinv.default", (2 * UNIT - 1).double()),
    case("special_ndtri.default", torch.cat([UNIT, ENDS, UNIT * 1e-30])),
    case("special_ndtri.default", UNIT.double()),
    case("lgamma.default", torch.cat([LINE, ENDS, torch.tensor([-2.0])])),
    case("lgamma.default", torch.tensor([1, 2, 5])),
    case("digamma.default", torch.cat([LINE, torch.tensor([0.0, -0.0, -2.0, INF, NAN])])),
    *(case("polygamma.default", n, LINE.double()) for n in range(5)),
    *(case("polygamma.default", n, torch.tensor([0.3, 2.0, -1.6, NAN])) for n in range(5)),
    case("polygamma.default", 2, torch.tensor([0.0, -2.0])),
    case("special_zeta.default", EXPONENTS[:, None].float(), STARTS.float()),
    case("special_zeta.default", EXPONENTS[:, None], STARTS),
    case("special_zeta.default", torch.tensor([1.0, 0.5, NAN])[:, None], ENDS),
    case("special_zeta.default", torch.tensor([2, 3, 1])[:, None], torch.tensor([3, 1, 0, -2])),
    case("special_zeta.self_scalar", 2.5, STARTS[STARTS > 0]),
    case("special_zeta.other_scalar", EXPONENTS, 0.7),
]


@pytest.mark.row("C:E27", "C:E4")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.row("S:H12")
@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("special_hermite_polynomial_h.default", LINE, LINE), "its degree is a tensor"),
        (case("linalg_eigvalsh.default", torch.eye(3)), "this operator has no lowering"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
