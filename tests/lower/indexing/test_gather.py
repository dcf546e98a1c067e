"""Gathers: positions that are read."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ids

POSITIONS = torch.tensor([0, -1, 2])
CASES = [
    case("embedding.default", floats(10, 4), ids(10, 2, 3)),
    case("embedding.default", floats(10, 4), ids(10, 2, 3).int(), 0),
    case("gather.default", floats(4, 5), 1, ids(5, 4, 2)),
    case("gather.default", floats(4, 5), 0, ids(4, 2, 3)),
    case("index_select.default", floats(4, 5), 1, torch.tensor([1, 1, 3])),
    case("index_select.default", floats(), 0, torch.tensor([0])),
    case("take.default", floats(3, 4), torch.tensor([[1, 11]])),
    case("index.Tensor", floats(4, 5), [POSITIONS]),
    case("index.Tensor", floats(4, 5, 6), [None, POSITIONS, POSITIONS]),
    case("index.Tensor", floats(4, 5, 6), [POSITIONS, None, POSITIONS]),
    case("index.Tensor", floats(4, 5), [POSITIONS[:, None], POSITIONS]),
    case("one_hot.default", torch.tensor([1, 0, 2]), 4),
    case("gather.default", floats(4, 5).bfloat16(), -1, ids(5, 4, 0)),
]


@pytest.mark.row("C:F15", "C:inv5")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("index.Tensor", floats(2, 2), [torch.tensor([True, False])] * 2),
            "two masks, or one without dimensions",
        ),
        (case("one_hot.default", torch.tensor([1, 0])), "the number of classes is data"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
