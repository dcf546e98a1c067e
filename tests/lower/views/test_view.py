"""Views and rearrangements read the elements eager reads."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

WIDTHS = (torch.int8, torch.int16, torch.bfloat16, torch.int32, torch.float32, torch.float64)
SIZES = [(a, b) for a in WIDTHS for b in WIDTHS if a.itemsize != b.itemsize]
BITS = [
    (torch.float32, torch.int32),
    (torch.int32, torch.float32),
    (torch.float64, torch.int64),
    (torch.int64, torch.float64),
    (torch.float16, torch.int16),
    (torch.int16, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.int8, torch.uint8),
    (torch.float32, torch.float32),
]
CASES = [
    *(case("view.dtype", (floats(3, 5) * 9000).to(a), b) for a, b in BITS),
    *(case("view.dtype", (floats(2, 8) * 100).to(a), b) for a, b in SIZES),
    case("view.dtype", floats(4) > 0, torch.uint8),
    case("view.dtype", floats(4) > 0, torch.int32),
    case("view.default", floats(4, 6), [2, 2, 3, 2]),
    case("view.default", floats(2, 3, 4), [6, 4]),
    case("reshape.default", floats(0, 3), [3, 0]),
    case("reshape.default", floats(1, 1), []),
    case("view.default", floats(6), [2, -1]),
    case("permute.default", floats(2, 3, 5), [2, 0, 1]),
    case("transpose.int", floats(2, 3, 5), -1, 0),
    case("t.default", floats(2, 3)),
    case("unsqueeze.default", floats(2, 3), -1),
    case("squeeze.dim", floats(2, 1, 3), 1),
    case("squeeze.default", floats(1, 2, 1)),
    case("expand.default", floats(2, 1), [4, 2, 3]),
    case("flatten.using_ints", floats(2, 3, 4), 1),
    case("unflatten.int", floats(6, 2), 0, [2, 3]),
    case("slice.Tensor", floats(10), 0, 2, 9, 3),
    case("slice.Tensor", floats(10, 2), 0, -4),
    case("slice.Tensor", floats(5), 0, 7, 9),
    case("slice.Tensor", floats(5), 0, -100, 3),
    case("select.int", floats(3, 4), 1, -2),
    case("narrow.default", floats(7), 0, 2, 3),
    case("split.Tensor", floats(7, 2), 3),
    case("split_with_sizes.default", floats(7, 2), [3, 4]),
    case("chunk.default", floats(7), 3),
    case("unbind.int", floats(3, 2), 1),
    case("movedim.int", floats(2, 3, 4), 0, 2),
    case("movedim.intlist", floats(2, 3, 4, 5), [0, 1], [-1, 0]),
    case("diagonal.default", floats(3, 4)),
    case("diagonal.default", floats(2, 3, 4), -1, 1, 2),
    case("unfold.default", floats(7, 2), 0, 3, 2),
    case("flip.default", floats(3, 4), [0, -1]),
    case("roll.default", floats(3, 4), [1, -2], [0, 1]),
    case("roll.default", floats(5), [2]),
    case("roll.default", floats(2, 3, 4), [-7]),
    case("roll.default", floats(2, 0), [1]),
    case("repeat.default", floats(2, 3), [2, 1, 3]),
    case("repeat_interleave.self_int", floats(2, 3), 2, 1),
    case("repeat_interleave.self_int", floats(2, 3), 2),
    case("pixel_shuffle.default", floats(1, 8, 2, 3), 2),
    case("pixel_unshuffle.default", floats(1, 2, 4, 6), 2),
    case("tile.default", floats(2, 3), [2]),
    case("mT.default", floats(2, 3)),
    case("tensor_split.sections", floats(7), 3),
    case("tensor_split.indices", floats(7, 2), [2, 5]),
    case("tensor_split.indices", floats(7, 2), [5, 2]),
    case("tensor_split.indices", floats(7), [9, -3, 2, -20]),
    case("roll.default", floats(11, 2), [5, -3], [0, 0]),
    case("roll.default", floats(3, 4), [1, 2, 3], [0, 1, -2]),
]


@pytest.mark.row("S:C1")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.row("S:C8", "S:C9")
@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("view.dtype", ints(4), torch.bool), "reading int64 bytes as bool"),
        (
            case("view.dtype", torch.ones(4, dtype=torch.uint8), torch.bool),
            "uint8 bytes as bool",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
