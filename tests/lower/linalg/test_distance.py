"""Distances between rows."""

import pytest
import torch

from tests.lower.oracle import Case, call, case, floats

NORMS = (0.0, 1.0, 2.0, 3.5, float("inf"))

ODD = torch.tensor([[float("nan"), 1, 2], [float("inf"), 0, 0], [1, 2, 3], [1, 2, 3]])

CASES = [
    *(case("_cdist_forward.default", ODD, ODD.flip(0), p, None) for p in NORMS[:-1]),
    *(case("_pdist_forward.default", ODD, p) for p in NORMS[:-1]),
    *(case("_cdist_forward.default", floats(2, 3, 5), floats(2, 4, 5), p, None) for p in NORMS),
    case("_cdist_forward.default", floats(2, 1, 3, 5), floats(3, 4, 5), 2.0, None),
    case("_cdist_forward.default", floats(3, 0), floats(4, 0), 2.0, None),
    *(case("_pdist_forward.default", floats(5, 3), p) for p in NORMS),
    *(case("_pdist_forward.default", floats(n, 2), 2.0) for n in (1, 2, 3, 17)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


def test_the_largest_difference_is_nan_where_one_is() -> None:
    """Eager's depends on the place of the NaN."""
    (found,), _ = call("aten._cdist_forward.default", ODD, ODD, float("inf"), None)
    differences = (ODD[:, None] - ODD).abs().amax(-1)
    torch.testing.assert_close(found, differences, equal_nan=True)
