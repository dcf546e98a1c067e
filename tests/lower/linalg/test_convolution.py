"""Convolutions."""

import pytest

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats

CASES = [
    case(
        "convolution.default",
        floats(2, 3, 7, 6),
        floats(4, 3, 3, 3),
        floats(4),
        [2, 1],
        [1, 0],
        [1, 2],
        False,
        [0, 0],
        1,
    ),
    case(
        "convolution.default", floats(2, 4, 7), floats(6, 2, 3), None, [1], [1], [1], False, [0], 2
    ),
    case("conv2d.default", floats(2, 3, 8, 8), floats(4, 3, 4, 4), floats(4), [4, 4]),
    case("conv2d.padding", floats(1, 3, 5, 5), floats(4, 3, 3, 3), None, [1, 1], "same"),
    case("conv1d.default", floats(3, 7), floats(4, 3, 3)),
    case("conv3d.default", floats(1, 2, 3, 4, 5), floats(2, 2, 2, 2, 2)),
    case(
        "convolution.default",
        floats(2, 4, 5, 5),
        floats(4, 3, 3, 3),
        floats(6),
        [2, 2],
        [1, 1],
        [1, 1],
        True,
        [1, 1],
        2,
    ),
    case("conv_transpose2d.input", floats(1, 2, 3, 3), floats(2, 3, 2, 2), None, [2, 2]),
    case(
        "conv2d.default",
        floats(1, 2, 4, 4).bfloat16(),
        floats(2, 2, 3, 3).bfloat16(),
        floats(2).bfloat16(),
    ),
    case("conv2d.padding", floats(1, 3, 5, 5), floats(4, 3, 2, 4), None, [1, 1], "same"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("conv_tbc.default", floats(4, 2, 3), floats(2, 3, 5), floats(5)),
            "this operator has no lowering",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
