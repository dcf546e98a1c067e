"""softmax and its kin."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats

ARGUMENTS = [
    (floats(3, 5), -1),
    (floats(3, 5, 2), 1),
    (floats(3, 5).bfloat16(), 0),
    (floats(3, 5).bfloat16(), -1, torch.float32),
    (torch.tensor(2.0), 0),
    (floats(0, 3), -1),
]
CASES = [
    *(case("softmax.int", *args) for args in ARGUMENTS),
    *(case("log_softmax.int", *args) for args in ARGUMENTS),
    case("_softmax.default", floats(3, 4), 1, False),
    case("_log_softmax.default", floats(3, 4), 1, False),
    case("_safe_softmax.default", torch.tensor([[-float("inf")] * 2, [1.0, 2]]), -1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("_softmax_backward_data.default", floats(3), floats(3), 0, torch.float32),
            "this operator has no lowering",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
