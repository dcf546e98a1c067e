"""Variances and norms."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, call, case, floats

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


INF = float("inf")
ENDLESS = torch.tensor([[INF, 1, 2], [0, -INF, 2], [0, 1, INF], [-INF, INF, 0], [5, 6, 1e8]])
WITH_MEANS = [
    case("var_mean.correction", ENDLESS, [1]),
    case("var_mean.dim", ENDLESS, [0], True, True),
    case("var_mean.default", ENDLESS),
    case("std_mean.correction", ENDLESS[:, 1:], [1], keepdim=True),
    case("std_mean.correction", ENDLESS.double()),
    case("native_layer_norm.default", ENDLESS, [3], None, None, 1e-5),
    case(
        "native_group_norm.default", ENDLESS[:, :2, None].contiguous(), None, None, 5, 2, 1, 2, 1e-5
    ),
]
DIMS = (1, 0, None, 1, None, 1, 2)


@pytest.mark.parametrize(("case", "dim"), list(zip(WITH_MEANS, DIMS, strict=True)), ids=str)
def test_a_mean_keeps_an_infinity(case: Case, dim: int | None) -> None:
    found, _ = call(case.op, *case.args, **case.kwargs)
    mean = case.args[0].mean(dim).reshape(found[1].shape)
    torch.testing.assert_close(found[1], mean, equal_nan=True)
    assert not mean.isfinite().all()


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
