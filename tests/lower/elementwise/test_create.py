"""Tensors made from nothing."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

CASES = [
    case("zeros.default", [2, 3]),
    case("ones_like.default", ints(3)),
    case("full.default", [2], 3.5),
    case("full_like.default", floats(2), 1),
    case("new_ones.default", floats(2), [], dtype=torch.bool),
    case("new_full.default", floats(2), [3], 2),
    case("scalar_tensor.default", 2.5),
    case("fill.Scalar", floats(3), 2),
    case("arange.default", 5),
    case("arange.start", 2, 7),
    case("arange.start_step", 10, 1, -3),
    case("arange.default", 3.5),
    case("arange.start_step", 0.0, 1.0, 0.3),
    case("linspace.default", 0, 1, 5),
    case("linspace.default", -3, 2, 7),
    case("linspace.default", 0, 1, 1),
    case("linspace.default", 0, 9, 5, dtype=torch.int64),
    case("linspace.default", -3.7, 11.2, 8, dtype=torch.int32),
    case("linspace.Tensor_Tensor", floats() * 9, ints(), 50, dtype=torch.int64),
    case("linspace.Tensor_Scalar", floats(), 3, 7),
    case("linspace.Scalar_Tensor", -1.5, floats(), 6),
    case("eye.default", 3),
    case("eye.m", 2, 4),
    case("arange.default", 5, dtype=torch.float32),
    case("zeros.default", [0]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("rand.default", [2]), "this operator has no lowering"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
