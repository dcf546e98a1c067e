"""Parts of a dimension, and what is found in them."""

import pytest
import torch

from tests.lower.oracle import Case, case, floats

LENGTHS = torch.tensor([2, 0, 3, 1])
OFFSETS = torch.tensor([0, 2, 2, 5, 6])
BY_ROW = torch.tensor([[1, 0, 3], [2, 2, 0]])
KINDS = ("sum", "mean", "prod", "max", "min")

CASES = [
    *(case("segment_reduce.default", floats(6, 2), kind, lengths=LENGTHS) for kind in KINDS),
    *(
        case("segment_reduce.default", floats(6), kind, offsets=OFFSETS, initial=2)
        for kind in KINDS
    ),
    case("segment_reduce.default", floats(2, 4, 3), "max", lengths=BY_ROW, axis=1, unsafe=True),
    case("segment_reduce.default", floats(6).half(), "mean", lengths=LENGTHS),
    case("segment_reduce.default", floats(1), "sum", lengths=torch.tensor([1])),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
