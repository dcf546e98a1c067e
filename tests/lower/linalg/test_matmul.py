"""Matrix products."""

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (registers its operator)

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints


def grouped(rows: int, *ends: int) -> list[Case]:
    """Experts' products of rows; those behind the last end belong to nobody."""
    x, w, offs = floats(rows, 32), floats(len(ends), 32, 16), torch.tensor(ends)
    found = [
        Case("transformers.grouped_mm_fallback.default", (x, w, offs), {}),
        Case("transformers.grouped_mm_fallback.default", (x.double(), w.double(), offs), {}),
    ]
    if rows == ends[-1]:
        found.append(case("_grouped_mm.default", x.bfloat16(), w.bfloat16(), offs=offs.int()))
    return found


CASES = [
    *grouped(37, 5, 5, 30, 37),
    *grouped(3, 0, 0, 1, 3),
    *grouped(300, 0, 0, 130, 300),
    *grouped(16, 16),
    *grouped(50, 3, 20),
    *grouped(40, 0, 0, 0),
    *grouped(1, 0, 0, 0, 0, 0, 1),
    case("_grouped_mm.default", floats(2, 16, 32).bfloat16(), floats(2, 32, 16).bfloat16()),
    case("linear.default", floats(2, 3, 4), floats(5, 4), floats(5)),
    case("linear.default", floats(3, 4), floats(5, 4)),
    case("linear.default", floats(4), floats(5, 4), floats(5)),
    case(
        "linear.default", floats(2, 3, 4).bfloat16(), floats(5, 4).bfloat16(), floats(5).bfloat16()
    ),
    case("mm.default", floats(3, 4), floats(4, 5)),
    case("bmm.default", floats(2, 3, 4), floats(2, 4, 5)),
    case("addmm.default", floats(5), floats(3, 4), floats(4, 5)),
    case("addmm.default", floats(3, 5), floats(3, 4), floats(4, 5), beta=0.5, alpha=2),
    case("addmm.default", torch.full((3, 5), float("nan")), floats(3, 4), floats(4, 5), beta=0),
    case("baddbmm.default", floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5)),
    case("matmul.default", floats(2, 1, 3, 4), floats(5, 4, 6)),
    case("matmul.default", floats(4), floats(4, 5)),
    case("matmul.default", floats(2, 3, 4), floats(4)),
    case("matmul.default", floats(4), floats(2, 4, 5)),
    case("matmul.default", floats(4), floats(4)),
    case("matmul.default", floats(2, 3, 4), floats(4, 5)),
    case("mv.default", floats(3, 4), floats(4)),
    case("dot.default", floats(3), floats(3)),
    case("mm.default", ints(3, 4), ints(4, 5)),
    *(
        case(name, ints(3, 4).to(dtype), ints(4, 5).to(dtype))
        for name in ("mm.default", "matmul.default")
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32)
    ),
    case("_int_mm.default", ints(17, 16).to(torch.int8) * 25, ints(16, 8).to(torch.int8) * 25),
    case("linear.default", ints(3, 4).int(), ints(5, 4).int(), ints(5).int()),
    case("mm.default", floats(3, 4).double(), floats(4, 5).double()),
    case("linear.default", floats(2, 3, 4).double(), floats(5, 4).double(), floats(5).double()),
    case("bmm.default", ints(2, 3, 4).int(), ints(2, 4, 5).int()),
    case("outer.default", floats(3), floats(4)),
    case("outer.default", floats(3) > 0, floats(4) > 0),
    case("addmv.default", floats(3), floats(3, 4), floats(4)),
    case("addbmm.default", floats(3, 5), floats(2, 3, 4), floats(2, 4, 5)),
    case("addbmm.default", ints(3, 5), ints(2, 3, 4), ints(2, 4, 5), beta=2, alpha=3),
    case("addmm.default", ints(3, 5), ints(3, 4), ints(4, 5), beta=2, alpha=3),
    case("addmv.default", ints(3).int(), ints(3, 4).int(), ints(4).int()),
    case(
        "_trilinear.default",
        floats(2, 3),
        floats(5, 3, 4),
        floats(2, 4),
        [1, 3],
        [0],
        [1, 2],
        [2, 3],
    ),
    case("matmul.default", floats(3, 4), floats(2, 4, 5)),
    case("mm.default", floats(0, 4), floats(4, 5)),
    case("mm.default", floats(3, 0), floats(0, 5)),
    case("linear.default", floats(2, 0, 4), floats(5, 4), floats(5)),
    case("mm.default", floats(1, 4), floats(4, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("inner.default", floats(2, 3), floats(4, 3)), "this operator has no lowering"),
        (
            case(
                "_grouped_mm.default",
                floats(16, 32).bfloat16(),
                floats(32, 16).bfloat16(),
                offs=torch.tensor([16, 32]).int(),
            ),
            r"factors of 2 and 2 dimensions are not accepted; accepted are rows \[s, k\]",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
