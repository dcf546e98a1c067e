"""Sorted rows, what is read off them, and searches in them."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, call, case, floats, ids, ints

NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([[1.0, NAN, 3.0, -0.0, 0.0, INF], [5.0, 5.0, -INF, 0.0, 5.0, NAN]])
EXTREME = torch.tensor([[2**63 - 1, -(2**63), 0, 2**63 - 1, -1]])
TIES = ids(3, 4, 9)
ROW = torch.tensor([1.0, 2.0, 2.0, 4.0])


def _orders() -> list[Case]:
    rows = [ODD, EXTREME, TIES, TIES.bool(), TIES.byte(), ODD.bfloat16(), ODD.double(), ODD.half()]
    rows += [floats(3, 0), floats(0, 3), floats(3, 1), torch.tensor(2.0), ints(4, 300)]
    return [
        case("sort.stable", x, stable=True, dim=dim, descending=descending)
        for x in rows
        for dim in ((-1,) if x.dim() < 2 else (0, 1))
        for descending in (False, True)
    ]


CASES = [
    *_orders(),
    case("sort.default", floats(4, 5), 0, True),
    case("argsort.stable", ODD, stable=True, dim=0),
    case("argsort.default", floats(7), 0, True),
    case("msort.default", floats(5, 3)),
    case("topk.default", floats(3, 9), 4),
    case("topk.default", floats(5, 3), 4, 0, False),
    case("topk.default", ODD[:1, :4], 2),
    case("topk.default", floats(3, 4), 0),
    case("topk.default", ODD, 1),
    case("topk.default", ODD, 1, 0, False),
    case("topk.default", floats(4, 3), 1, 0),
    case("topk.default", torch.tensor(3.0), 1),
    case("kthvalue.default", floats(3, 7), 2),
    case("kthvalue.default", floats(3, 7), 3, 0, True),
    case("kthvalue.default", torch.tensor(3.0), 1),
    case("median.default", floats(3, 4)),
    case("median.default", floats(0)),
    case("median.default", ODD),
    case("median.default", torch.tensor(3)),
    case("median.dim", floats(3, 6), 1),
    case("median.dim", ODD, 1, True),
    case("median.dim", torch.randperm(7), 0),
    case("nanmedian.default", ODD),
    case("nanmedian.dim", torch.tensor([[NAN, 3, NAN, 1, 2], [4, 3, 2, 1, 0]]), 1),
    case("nanmedian.dim", torch.full((2, 3), NAN), 1),
    case("mode.default", torch.tensor([[3, 1, 3, 1, 2, 2], [5, 4, 4, 5, 5, 4]]), 1),
    case("mode.default", torch.tensor([[3.0, 1], [3, 2], [0, 2]]), 0, True),
    case("mode.default", torch.tensor(2.0)),
    case("searchsorted.Tensor", ROW, floats(3, 4)),
    case("searchsorted.Tensor", ROW, torch.tensor([0.0, 1, 2, 3, 4, 5, NAN, INF]), right=True),
    case("searchsorted.Tensor", ROW, ROW, side="right", out_int32=True),
    case("searchsorted.Tensor", floats(3, 9).sort(1).values, floats(3, 5)),
    case("searchsorted.Tensor", torch.tensor([1.0, NAN, NAN, NAN]), floats(5)),
    case("searchsorted.Tensor", torch.tensor([3.0, 1, 2]), ROW, sorter=torch.tensor([1, 2, 0])),
    case("searchsorted.Tensor", floats(0), floats(3)),
    case("searchsorted.Scalar", torch.tensor([1, 3, 5]), 3),
    case("searchsorted.Scalar", torch.tensor([1, 3, 5]), 2.5),
    case("bucketize.Tensor", ints(3, 4), torch.tensor([-2, 0, 0, 3])),
    case("bucketize.Tensor", floats(6), torch.tensor([-1, 0, 1]), right=True),
    case("bucketize.Scalar", 2, torch.tensor([1, 2, 3]), out_int32=True),
    case("isin.Tensor_Tensor", ints(3, 4), torch.tensor([[1, 2], [-3, 5]])),
    case("isin.Tensor_Tensor", ODD, torch.tensor([NAN, 0.0, 5.0]), invert=True),
    case("isin.Tensor_Tensor", ints(3), ints(0)),
    case("isin.Tensor_Scalar", ints(5), 2),
    case("isin.Scalar_Tensor", 2, ints(50)),
]


@pytest.mark.parametrize(
    ("row", "value", "index"),
    [
        ([NAN, 3, 2, NAN, 3], 3.0, 4),
        ([5, NAN, 4, NAN, 3, 1], 1.0, 5),
        ([NAN, 2, 2, 1, 1], 1.0, 4),
        ([INF, NAN], INF, 0),
        ([NAN, NAN, NAN], NAN, 0),
    ],
)
def test_the_mode_of_a_row_with_nan(row: list[float], value: float, index: int) -> None:
    """A NaN equals nothing; eager's sort is lost at one."""
    (values, indices), _ = call("aten.mode.default", torch.tensor([row]), 1)
    torch.testing.assert_close(values, torch.tensor([value]), equal_nan=True)
    assert indices.tolist() == [index]


@pytest.mark.row("S:B21", "C:G16", "C:F16", "C:inv22", "S:inv31")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.row("S:B21")
def test_signed_zeros_keep_their_order() -> None:
    (values, _), _ = call("aten.sort.stable", torch.tensor([0.0, -0.0, 0.0, -1.0]), stable=True)
    assert torch.signbit(values).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("median.default", ints(0)), "integers without elements have no median"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
