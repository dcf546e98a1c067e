"""Pooling and resizing."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

INF = float("inf")
HOLES = floats(1, 2, 7, 9).where(floats(1, 2, 7, 9) < 0.3, float("nan"))
TIES = ints(1, 2, 7, 9).sign().double()
LOW = torch.full((1, 1, 4, 4), -INF)
CASES = [
    case("max_pool2d.default", floats(1, 2, 6, 7), [2, 2]),
    case("max_pool2d_with_indices.default", floats(1, 2, 6, 7), [3, 3], [2, 2], [1, 1]),
    case("max_pool2d.default", floats(1, 2, 6, 7), [3, 2], [2, 2], [1, 1], [1, 1], True),
    case("max_pool1d.default", floats(2, 7), [3], [2]),
    case("avg_pool2d.default", floats(1, 2, 6, 7), [2, 2]),
    case("avg_pool2d.default", floats(1, 2, 6, 7), [3, 3], [2, 2], [1, 1], True, True),
    case("avg_pool2d.default", floats(1, 2, 6, 7), [3, 3], [2, 2], [1, 1], False, False),
    case("adaptive_avg_pool2d.default", floats(1, 2, 7, 7), [1, 1]),
    case("adaptive_avg_pool2d.default", floats(1, 2, 7, 5), [3, 2]),
    case("adaptive_avg_pool2d.default", floats(1, 2, 6, 4), [3, 2]),
    case("adaptive_avg_pool1d.default", floats(2, 7), [2]),
    case("adaptive_max_pool2d.default", floats(1, 2, 7, 5), [3, 2]),
    case("adaptive_max_pool2d.default", floats(2, 6, 4), [3, 4]),
    case("adaptive_max_pool3d.default", floats(1, 1, 5, 4, 3), [2, 3, 1]),
    case("max_pool2d_with_indices.default", ints(1, 2, 5, 4), [3, 3], [2, 2], [1, 1]),
    case("avg_pool2d.default", ints(1, 6, 7), [3, 3], [2, 2], [1, 1], True, False),
    case("upsample_nearest2d.vec", floats(1, 1, 4, 5), None, [1.3, 2.6]),
    case("upsample_nearest1d.vec", floats(1, 1, 9), None, [0.7]),
    case("upsample_nearest2d.vec", floats(1, 2, 3, 4), None, [2.0, 2.0]),
    case("upsample_nearest2d.vec", floats(1, 2, 3, 4), [5, 7], None),
    case("upsample_nearest2d.vec", floats(1, 2, 2, 3), None, [3.2, 2.3]),  # 6 and 6 of them
    case("upsample_nearest2d.vec", floats(1, 1, 60, 90), None, [1.01, 1.01]),
    case("upsample_nearest1d.vec", floats(1, 2, 3), None, [2.3]),
    case("upsample_nearest1d.vec", floats(1, 1, 4), [82], None),  # 41 * (1 / 41) is below 1
    case("upsample_nearest1d.vec", floats(1, 1, 4).double(), [82], None),
    case("upsample_nearest2d.vec", floats(1, 1, 4, 2).double(), [82, 82], None),
    case("upsample_nearest2d.vec", floats(1, 1, 4, 2).double(), [30, 82], None),
    case("adaptive_avg_pool2d.default", floats(1, 2, 1, 5), [0, 2]),
    case("adaptive_max_pool1d.default", floats(1, 2, 5), [0]),
    case("max_pool2d_with_indices.default", TIES, [3, 3], [2, 2], [1, 1]),
    case("max_pool2d_with_indices.default", LOW, [3, 3], [1, 1], [1, 1]),
]

OF_NAN = [
    case("max_pool2d_with_indices.default", HOLES, [3, 3], [2, 2], [1, 1]),
    case("max_pool2d_with_indices.default", HOLES.bfloat16(), [3, 3], [1, 1], [1, 1], [2, 3]),
    case("max_pool3d_with_indices.default", HOLES, [2, 2, 3], [1, 2, 2], [0, 1, 1], [1] * 3, True),
    case("adaptive_max_pool1d.default", HOLES[0], [4]),
    case("adaptive_max_pool2d.default", HOLES, [3, 4]),
    case("adaptive_max_pool3d.default", HOLES, [1, 3, 2]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", OF_NAN, ids=str)
def test_the_last_of_several_nan_is_found(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("fractional_max_pool2d.default", floats(1, 4, 4), [2, 2], [2, 2], floats(1, 1, 2)),
            "no",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
