"""Scatters: positions that are written; of several writers one stays, or all are combined (S:B2).

Also what torch falls back to its own kernels for: scatter_reduce, index_put (S:H17, H18).
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, check, floats, ids, ints

ONCE = torch.tensor([3, 0, 2])
OFTEN = torch.tensor([1, 3, 1, 0, 3])
NAN, INF = float("nan"), float("inf")
WITH_NAN = torch.tensor([[1.0, NAN, -2.0, -0.0], [NAN, 5.0, -INF, 3.0]])
PLANE = torch.tensor([[0, 3, 1, 1], [0, 2, 1, 0]])
WHOLE = torch.tensor([True, False, True, True])


def bfloat16(*shape: int) -> torch.Tensor:
    return floats(*shape).bfloat16()


REDUCTIONS = [
    case("scatter_reduce.two", x, 1, PLANE, y, reduce, include_self=include)
    for x, y in (
        (floats(2, 5), floats(2, 4)),
        (ints(2, 5), ints(2, 4)),
        (floats(2, 5).half(), floats(2, 4).half()),
        (ints(2, 5).to(torch.int8), ints(2, 4).to(torch.int8)),
        (floats(2, 5), WITH_NAN),
    )
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include in (True, False)
]
ROWS = [
    case("index_reduce.default", floats(4, 3), 0, OFTEN, floats(5, 3), reduce, include_self=include)
    for reduce in ("prod", "mean", "amax", "amin")
    for include in (True, False)
]
CASES = [
    *REDUCTIONS,
    *ROWS,
    case("scatter.src", floats(4, 5), 0, torch.tensor([[0, 1, 2], [2, 0, 0]]), floats(3, 4)),
    case("scatter.src", bfloat16(4, 5), -1, torch.tensor([[4, 0], [1, 3]]), bfloat16(2, 2)),
    case("scatter.src", floats(3), 0, torch.tensor(1), torch.tensor(4.0)),
    case("scatter.src", torch.tensor(3.0), 0, torch.tensor(0), torch.tensor(4.0)),
    case("scatter.src", torch.tensor(3.0), 0, torch.tensor([0]), torch.tensor([4.0])),
    case("scatter.src", floats(4, 5), 0, ids(4, 0, 5), floats(2, 5)),
    case("scatter.value", torch.zeros(4, 5), 1, ids(5, 4, 1), 1),
    case("scatter.value", floats(4, 5) > 0, 1, ids(5, 4, 1), True),
    case("scatter.reduce", floats(4, 5), 1, ids(5, 4, 3), floats(4, 3), reduce="add"),
    case("scatter.reduce", ints(4, 5), 1, ids(5, 4, 3), ints(4, 3), reduce="multiply"),
    case("scatter.value_reduce", floats(4, 5), 1, ids(5, 4, 3), 3, reduce="multiply"),
    case("scatter_add.default", floats(4, 5), 0, ids(4, 6, 5), floats(6, 5)),
    case("scatter_add.default", floats(4, 5).double(), 0, ids(4, 6, 5), floats(6, 5).double()),
    case("scatter_add.default", ints(4, 5).to(torch.uint8), 0, ids(4, 6, 5), ints(6, 5).byte()),
    case("scatter_add.default", bfloat16(4, 5), 0, ids(4, 3, 2), bfloat16(6, 5)),
    case("scatter_add.default", floats(0, 5), 0, ids(4, 0, 5), floats(0, 5)),
    case("index_add.default", floats(4, 3), 0, OFTEN, floats(5, 3)),
    case("index_add.default", floats(3, 4), -1, OFTEN, floats(3, 5), alpha=0.5),
    case("index_add.default", ints(3, 4), 1, OFTEN.int(), ints(3, 5), alpha=-2),
    case("index_add.default", floats(4), 0, torch.tensor([2]), torch.tensor([1.5])),
    case("index_add.default", torch.tensor(2.0), 0, torch.tensor([0]), torch.tensor(1.5)),
    case("index_add.default", floats(4, 3), 0, OFTEN[:0], floats(0, 3)),
    case("index_add.default", floats(4, 3) > 0, 0, OFTEN, floats(5, 3) > 0),
    case("index_copy.default", floats(4, 3), 0, ONCE, floats(3, 3)),
    case("index_copy.default", bfloat16(2, 4, 3), 1, ONCE, bfloat16(2, 3, 3)),
    case("index_copy.default", floats(4, 3), 0, OFTEN, floats(5, 3)),
    case("index_fill.int_Scalar", floats(4, 3), 1, torch.tensor([0, 0, 2]), 2.5),
    case("index_fill.int_Scalar", ints(4, 3), 1, torch.tensor([0, -1]), 7),
    case("index_fill.int_Tensor", floats(4, 3), 0, ONCE, torch.tensor(2.5)),
    case("put.default", floats(3, 4), torch.tensor([[1, 11], [-1, 0]]), floats(4)),
    case("put.default", floats(3, 4), torch.tensor([1, 11, 1, -12]), floats(2, 2), True),
    case("index_put.default", floats(4, 5), [ONCE], floats(3, 5)),
    case("index_put.default", floats(4, 5), [ONCE], torch.tensor(2.0)),
    case("index_put.default", floats(4, 5), [None, torch.tensor([0, -1])], floats(4, 1)),
    case("index_put.default", floats(4, 5), [ONCE, ONCE], floats(3)),
    case("index_put.default", floats(4, 5), [ONCE[:, None], torch.tensor([[0, 4]])], floats(3, 2)),
    case("index_put.default", floats(4, 5, 4), [ONCE, None, ONCE], floats(3, 5)),
    case("index_put.default", floats(5, 4, 4), [None, ONCE, ONCE], floats(5, 3)),
    case("index_put.default", floats(4, 5), [OFTEN], floats(5, 5), True),
    case("index_put.default", floats(4, 5).half(), [OFTEN], floats(5, 5).half(), True),
    case("index_put.default", ints(4, 5), [OFTEN], ints(5), True),
    case("index_put.default", floats(4) > 0, [OFTEN], floats(5) > 0, True),
    case("index_put.default", floats(4, 5), [WHOLE], torch.tensor(1.0)),
    case("index_put.default", floats(4, 5), [WHOLE], floats(5)),
    case("index_put.default", floats(4, 5), [WHOLE], floats(1, 5), True),
    case("index_put.default", floats(3, 4, 5), [None, WHOLE], floats(3, 1, 5)),
    case("index_put.default", floats(4, 5), [floats(4, 5) > 0], torch.tensor([2.0])),
    case("index_put.default", floats(4), [WHOLE], torch.tensor([1.0, 2.0, 3.0])),
    case("masked_scatter.default", floats(2, 4), WHOLE, floats(3, 3)),
    case("masked_scatter.default", ints(4), ~WHOLE, ints(5)),
    case("masked_scatter.default", floats(2, 0), WHOLE[:0], floats(3)),
    case("index_put.default", floats(4, 5), [WHOLE], floats(3, 5)),
    case("index_put.default", floats(4), [WHOLE], floats(3), True),
]


@pytest.mark.row("S:B2", "S:H17", "S:H18", "C:F12")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.row("S:H18")
@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("index_put.default", floats(4, 5), [WHOLE, ONCE], floats(3)),
            "a mask beside another index",
        ),
    ],
    ids=str,
)
def test_refuses(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()


@st.composite
def placements(draw: st.DrawFn) -> tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]:
    """(target, dimension, places along it, rows for them): any size may be 0, places repeat."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    dim = draw(st.integers(0, len(shape) - 1))
    size = shape[dim]
    places = draw(st.lists(st.integers(-size, size - 1), max_size=6)) if size else []
    random = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    target = torch.randint(-50, 50, shape, generator=random)
    shape[dim] = len(places)
    rows = torch.randint(-50, 50, shape, generator=random)
    return target, dim, torch.tensor(places, dtype=torch.int64), rows


@settings(max_examples=60, deadline=None)
@given(placements(), st.sampled_from([torch.int64, torch.uint8, torch.float32, torch.bfloat16]))
def test_any_places(
    drawn: tuple[torch.Tensor, int, torch.Tensor, torch.Tensor], dtype: torch.dtype
) -> None:
    target, dim, places, rows = drawn
    target, rows = target.to(dtype), rows.to(dtype)
    before = [None] * dim
    check("aten.index_put.default", target, [*before, places], rows, True)
    positive = places % max(1, target.shape[dim])
    check("aten.index_add.default", target, dim, positive, rows)
    once, first = np.unique(positive.numpy(), return_index=True)
    kept = rows.index_select(dim, torch.from_numpy(first))
    check("aten.index_copy.default", target, dim, torch.from_numpy(once), kept)
    at = positive.reshape([-1 if k == dim else 1 for k in range(target.dim())]).expand_as(rows)
    check("aten.scatter_reduce.two", target, dim, at, rows, "amax")
