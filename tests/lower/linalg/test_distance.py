"""Distances between rows."""

import pytest

from tests.lower.oracle import Case, case, floats

NORMS = (0.0, 1.0, 2.0, 3.5, float("inf"))

CASES = [
    *(case("_cdist_forward.default", floats(2, 3, 5), floats(2, 4, 5), p, None) for p in NORMS),
    case("_cdist_forward.default", floats(2, 1, 3, 5), floats(3, 4, 5), 2.0, None),
    case("_cdist_forward.default", floats(3, 0), floats(4, 0), 2.0, None),
    *(case("_pdist_forward.default", floats(5, 3), p) for p in NORMS),
    *(case("_pdist_forward.default", floats(n, 2), 2.0) for n in (1, 2, 3, 17)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
