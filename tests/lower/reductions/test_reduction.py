"""Reductions over dimensions."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints

ALONG = [("sum.dim_IntList", [1]), ("mean.dim", [1]), ("amax.default", [1]), ("amin.default", [1])]
ALONG += [("logsumexp.default", [1]), ("prod.dim_int", 1), ("any.dim", 1), ("all.dim", 1)]
SEVERAL = [op for op, dims in ALONG if isinstance(dims, list)]
WHOLE = ["sum.default", "mean.default", "prod.default", "max.default", "min.default"]
TYPES = (torch.float32, torch.bfloat16)

CASES = [
    *(case(op, floats(3, 5, 2).to(dtype), dims) for op, dims in ALONG for dtype in TYPES),
    *(case(op, floats(3, 5, 2).to(dtype), [0, -1], True) for op in SEVERAL for dtype in TYPES),
    *(case(op, floats(3, 5).to(dtype)) for op in WHOLE for dtype in TYPES),
    *(case(op, floats(3, 5).to(dtype), 1) for op in ("max.dim", "min.dim") for dtype in TYPES),
    *(case(op, floats(3, 5), 0, True) for op in ("max.dim", "min.dim")),
    case("sum.default", ints(3, 4)),
    case("sum.default", floats(3) > 0),
    case("sum.dim_IntList", ints(3, 4).int(), [0], dtype=torch.int32),
    case("prod.default", ints(3)),
    case("amax.default", ints(3, 4), [1]),
    case("max.dim", ints(3, 4), 1),
    case("sum.default", floats(0, 3)),
    case("sum.dim_IntList", floats(0, 3), [0]),
    case("sum.default", torch.tensor(2.0)),
    case("argmax.default", floats(3, 4)),
    case("argmax.default", floats(3, 4), 1),
    case("argmin.default", floats(3, 4), 0, True),
    case("any.default", torch.tensor([0, 1], dtype=torch.uint8)),
    case("all.dim", ints(3, 4), 1, True),
    case("argmax.default", torch.tensor([1.0, float("nan"), 3])),
    case("amax.default", torch.tensor([1.0, float("nan"), 3])),
    case("max.default", floats(4) > 0),
    case("max.dim", floats(4, 3) > 0, 1),
    case("amax.default", floats(3, 2), []),
    case("count_nonzero.dim_IntList", ints(3, 4), [0]),
    case("aminmax.default", floats(3, 4), dim=1),
    case("any.dims", floats(3, 4, 2) > 1, [0, 2]),
    *(case(op, floats(3, 4) > 0, dims) for op in ("any.dims", "all.dims") for dims in ([], None)),
    case("any.dims", ints(3, 4).to(torch.uint8), [], True),
    case("all.dims", floats(3, 4), []),
    case("all.dims", torch.tensor(2.0), []),
    case("mean.dim", floats(3, 4).half(), None, dtype=torch.float32),
    case("logsumexp.default", torch.tensor([[-float("inf"), -float("inf")], [1.0, 2]]), [1]),
]


@pytest.mark.row("S:B3", "C:D8", "C:inv21")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("cumulative_trapezoid.x", floats(3), floats(3)), "this operator has no lowering"),
        (case("max.other", floats(3), floats(3)), "max.default, aten.max.dim has"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
