"""Concatenated, padded and differenced tensors."""

import pytest

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

CASES = [
    *(
        case("pad.default", floats(2, 3, 5), [2, 1], mode)
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        case("pad.default", floats(2, 3, 5), [before, after], "circular")
        for before, after in ((-1, 1), (2, -1), (-2, -1), (5, 5))
    ),
    case("cat.default", [floats(2, 3), floats(1, 3), floats(4, 3)]),
    case("cat.default", [floats(2, 3), floats(2, 1)], -1),
    case("cat.default", [floats(2), ints(3)]),
    case("cat.default", [floats(0), floats(2, 3)]),
    case("cat.default", [floats(2, 3)]),
    case("cat.default", [floats(2, 3), floats(2, 3), floats(2, 0), floats(2, 3)], 1),
    case("stack.default", [floats(2, 3), floats(2, 3), floats(2, 3)], 1),
    case("constant_pad_nd.default", floats(3, 4), [1, 2, 0, 1], 0.5),
    case("constant_pad_nd.default", floats(3, 4), [-1, 2]),
    case("pad.default", floats(2, 3, 5), [2, 1]),
    case("reflection_pad2d.default", floats(1, 4, 5), [1, 2, 2, 1]),
    case("replication_pad1d.default", floats(2, 5), [1, 2]),
    case("slice_scatter.default", floats(6, 2), floats(3, 2), 0, 0, 6, 2),
    case("slice_scatter.default", floats(6, 2), floats(2, 2), 0, -3, -1),
    case("select_scatter.default", floats(3, 4), floats(3), 1, -1),
    case("diff.default", floats(3, 7)),
    case("diff.default", floats(3, 7), 0, -1, floats(3, 1), floats(3, 1)),
    case("diff.default", floats(3, 7), 2),
    case("diff.default", ints(3, 7), 1, -1, ints(3, 1)),
    case("diff.default", floats(3, 7), 1, 0, floats(1, 7), floats(2, 7)),
    case("diff.default", floats(5) > 0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("block_diag.default", [floats(2, 2)]), "this operator has no lowering"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
