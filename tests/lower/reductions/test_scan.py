"""Running reductions."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

CASES = [
    case("cumsum.default", floats(3, 4), 1),
    case("cumsum.default", ints(3, 4), 0),
    case("cumsum.default", floats(4) > 0, 0),
    case("cumprod.default", floats(4), -1),
    case("cumsum.default", floats(4).bfloat16(), 0),
    case("logcumsumexp.default", floats(4, 3), 0),
    case("cummax.default", floats(4, 3), 0),
    case("cummin.default", floats(4, 3) > 0, 1),
    case("cummin.default", ints(4, 3), 1),
    case("cumsum.default", torch.tensor(2.0), 0),
    case("cummax.default", floats(3, 7) > 0, 1),
    case("cummin.default", floats(3, 7) > 0, 0),
    case("cummax.default", torch.tensor(True), 0),
    *(
        case(f"{name}.default", x, 1)
        for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
        for x in (
            floats(3, 0),
            floats(0, 3),
            floats(3, 1),
            floats(2, 5).double(),
            floats(2, 5).half(),
        )
    ),
    *(
        case(f"{name}.default", ints(2, 5).to(dtype), 1)
        for name in ("cumsum", "cumprod", "cummax", "cummin")
        for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32)
    ),
    case("cumsum.default", ints(4), 0, dtype=torch.int32),
]


@pytest.mark.row("S:B19", "C:D8")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("cumulative_trapezoid.x", floats(3), floats(3)), "this operator has no lowering"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
