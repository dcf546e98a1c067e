"""Variances and norms."""

import pytest

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats

SPREADS = ("var", "std", "var_mean", "std_mean")
ORDERS = (2, 1, 0, float("inf"), -float("inf"), 3, 0.5)

CASES = [
    *(case(f"{op}.correction", floats(3, 7), [1]) for op in SPREADS),
    *(case(f"{op}.correction", floats(3, 7), [0, 1], correction=0, keepdim=True) for op in SPREADS),
    *(case(f"{op}.correction", floats(3, 7).bfloat16(), [1]) for op in SPREADS),
    *(case(f"{op}.correction", floats(3, 1), [1]) for op in SPREADS),
    *(case(f"{op}.dim", floats(3, 7), [1], False) for op in SPREADS),
    *(case(f"{op}.correction", floats(3, 0), [1]) for op in SPREADS),
    *(case(f"{op}.default", floats(7)) for op in SPREADS),
    *(case("linalg_vector_norm.default", floats(3, 4), order, [1]) for order in ORDERS),
    case("linalg_vector_norm.default", floats(3, 4)),
    case("linalg_vector_norm.default", floats(3, 4).bfloat16(), 2, [0], True),
    case("norm.ScalarOpt_dim", floats(3, 4), 2, [1], True),
    case("norm.Scalar", floats(3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("nuclear_norm.default", floats(3, 3)), "this operator has no lowering"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
