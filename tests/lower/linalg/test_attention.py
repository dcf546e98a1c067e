"""Attention."""

import pytest

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats

CASES = [
    case(
        "scaled_dot_product_attention.default",
        floats(2, 3, 5, 4),
        floats(2, 3, 7, 4),
        floats(2, 3, 7, 6),
    ),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 3, 5, 4),
        floats(2, 3, 5, 4),
        floats(2, 3, 5, 4),
        None,
        0.0,
        True,
    ),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 3, 5, 4),
        floats(2, 3, 7, 4),
        floats(2, 3, 7, 4),
        floats(2, 1, 5, 7) > -1,
    ),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 3, 5, 4),
        floats(2, 3, 7, 4),
        floats(2, 3, 7, 4),
        floats(5, 7),
        scale=0.3,
    ),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 4, 5, 4),
        floats(2, 2, 7, 4),
        floats(2, 2, 7, 4),
        enable_gqa=True,
    ),
    case("scaled_dot_product_attention.default", floats(3, 5, 4), floats(3, 7, 4), floats(3, 7, 4)),
    case("scaled_dot_product_attention.default", floats(5, 4), floats(7, 4), floats(7, 4)),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 2, 3, 5, 4),
        floats(2, 2, 3, 7, 4),
        floats(2, 2, 3, 7, 4),
    ),
    case(
        "scaled_dot_product_attention.default",
        floats(2, 3, 5, 4).bfloat16(),
        floats(2, 3, 7, 4).bfloat16(),
        floats(2, 3, 7, 4).bfloat16(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("scaled_dot_product_attention.default", *(floats(1, 1, 2, 4),) * 3, None, 0.5),
            "dropout is on",
        ),
        (
            case("scaled_dot_product_attention.default", *(floats(1, 1, 2, 4).double(),) * 3),
            "float64 queries are not accepted",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
