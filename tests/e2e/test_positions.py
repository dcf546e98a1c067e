"""Builds that check indices raise where eager does, and name the operator: a row for each one.

All are calls of one model, each with positions of its own. Shapes: x is 4 rows of 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import aotpack
from aotpack.runtime import AssertionFailed, Model

X = torch.arange(1.0, 13.0).reshape(4, 3)


@dataclass(frozen=True)
class Row:
    """``good`` are the example's positions; of ``others`` eager accepts all, of ``bad`` none."""

    operator: str
    step: Callable[[Tensor, Tensor], Tensor]
    good: list[Any]
    others: tuple[list[Any], ...]
    bad: dict[str, tuple[list[Any], ...]]


def spread(i: Tensor, rank: int) -> Tensor:
    return i.reshape((1,) * (rank - 1) + (-1,))


def unpooled(rank: int) -> Callable[[Tensor, Tensor], Tensor]:
    pool = getattr(F, f"max_unpool{rank}d")
    return lambda x, i: pool(spread(x[0, :2], rank + 1), spread(i, rank + 1), 2)


def counted(i: Tensor) -> Any:
    """A number that is a size too."""
    number = i.item()
    torch._check(number >= 0)
    torch._check(number <= 4)
    return number


def at_a_size(x: Tensor, i: Tensor) -> Tensor:
    number = counted(i)
    return x[:number].sum() + x[number]


def written_at_a_size(x: Tensor, i: Tensor) -> Tensor:
    number = counted(i)
    return x[:number].sum() + torch.select_scatter(x, x[0], 0, number)


def below(size: int, low: int = 0) -> str:
    return f"positions must be at least {low} and less than {size}"


def as_complex(x: Tensor) -> Tensor:
    return torch.complex(x, -x)


ROWS = [
    Row("one_hot", lambda x, i: F.one_hot(i, 4), [1], ([0], [3]), {below(4): ([-1], [4])}),
    Row(
        "embedding_bag",
        lambda x, i: F.embedding_bag(i, x),
        [[1, 2]],
        ([[0, 3]],),
        {below(4): ([[1, -1]], [[4, 1]])},
    ),
    Row(
        "embedding_bag",
        lambda x, i: F.embedding_bag(torch.tensor([3, 1, 0]), x, i, mode="sum"),
        [0, 1],
        ([0, 0], [0, 3]),
        {below(4): ([0, 4],), "the first offset must be 0": ([1, 2],)},
    ),
    Row(
        "embedding_bag",
        lambda x, i: F.embedding_bag(
            torch.tensor([3, 1, 0]), x, i, mode="sum", include_last_offset=True
        ),
        [0, 1, 3],
        ([0, 3, 3],),
        {"offsets must not decrease": ([0, 2, 1],)},
    ),
    Row(
        "embedding_renorm",
        lambda x, i: torch.embedding_renorm_(x.clone(), i, 1.0, 2.0),
        [1],
        ([-4],),
        {below(4, -4): ([4],)},
    ),
    Row("max_unpool2d", unpooled(1), [0, 3], ([1, 2],), {below(4): ([0, 4], [-1, 2])}),
    Row("max_unpool2d", unpooled(2), [0, 7], ([1, 2],), {below(8): ([0, 8], [-1, 2])}),
    Row("max_unpool3d", unpooled(3), [0, 15], ([1, 2],), {below(16): ([0, 16], [-1, 2])}),
    Row(
        "searchsorted",
        lambda x, i: torch.searchsorted(x[:2, 0].contiguous(), x[0], sorter=i),
        [0, 1],
        ([1, 1],),
        {below(2): ([0, 2], [-1, 0])},
    ),
    Row(
        "segment_reduce",
        lambda x, i: torch.segment_reduce(x, "sum", lengths=i),
        [1, 3],
        ([4, 0],),
        {"counts must add up to 4": ([1, 2], [3, 3]), below(5): ([-1, 5],)},
    ),
    Row(
        "segment_reduce",
        lambda x, i: torch.segment_reduce(x, "sum", lengths=i, unsafe=True),
        [1, 3],
        ([1, 0],),
        {below(5): ([-1, 3],)},
    ),
    Row(
        "segment_reduce",
        lambda x, i: torch.segment_reduce(x, "sum", offsets=i),
        [0, 1, 4],
        ([1, 1, 3],),
        {"offsets must not decrease": ([0, 3, 1],)},
    ),
    Row(
        "masked_scatter",
        lambda x, i: x.masked_scatter(i[:, None] > 0, x[0]),
        [0, 1, 0, 0],
        ([0] * 4, [0, 0, 0, 1]),
        {"counts must add up to at most 3": ([1, 1, 0, 0],)},
    ),
    Row(
        "index_put",
        lambda x, i: x.index_put((i > 0,), x[:2] * 2),
        [0, 1, 0, 1],
        ([1, 1, 0, 0],),
        {"counts must add up to 2": ([0, 1, 0, 0], [1] * 4, [0] * 4)},
    ),
    Row(
        "index_put",
        lambda x, i: x.index_put((i > 0,), x[:1] * 2),
        [0, 1, 0, 1],
        ([1, 1, 1, 0], [0] * 4),
        {},
    ),
    Row("select", lambda x, i: x[i], 1, (-4, 3), {below(4, -4): (4, -5)}),
    Row("select", at_a_size, 1, (0, 3), {below(4, -4): (4,)}),
    Row("select_scatter", written_at_a_size, 1, (0, 3), {below(4, -4): (4,)}),
    Row(
        "index",
        lambda x, i: torch.view_as_real(as_complex(x)[i]),
        [1],
        ([-4],),
        {below(4, -4): ([4], [-5])},
    ),
    Row(
        "index_select",
        lambda x, i: torch.view_as_real(as_complex(x).index_select(0, i)),
        [1],
        ([3],),
        {below(4): ([4], [-1])},
    ),
    Row(
        "_unsafe_index_put",
        lambda x, i: torch.ops.aten._unsafe_index_put(x, [i], x[:1]),
        [1],
        ([-4],),
        {below(4, -4): ([4], [-5])},
    ),
]


CALLS = {f"{row.operator}{place}": (place, row) for place, row in enumerate(ROWS)}


class All(nn.Module):
    def forward(self, x: Tensor, given: list[Tensor]) -> list[Tensor]:
        return [row.step(x, i) for row, i in zip(ROWS, given, strict=True)]


def good() -> list[Tensor]:
    return [torch.tensor(row.good) for row in ROWS]


@cache
def model() -> Model:
    return aotpack.compile(All(), (X, good()), target="interpreter", check_indices=True)


@pytest.mark.row("C:inv5")
@pytest.mark.parametrize("name", CALLS)
def test_positions_that_eager_accepts_are_accepted(name: str) -> None:
    place, row = CALLS[name]
    for one in (row.good, *row.others):
        given = good()
        given[place] = torch.tensor(one)
        torch.testing.assert_close(
            model()(X, given)[place], row.step(X, given[place]), equal_nan=True
        )


def test_a_size_as_a_position_reads_the_nearest_row_without_checks() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, i: Tensor) -> Tensor:
            return at_a_size(x, i)

    unchecked = aotpack.compile(Model(), (X, torch.tensor(1)), target="interpreter")
    assert torch.equal(unchecked(X, torch.tensor(4)), X.sum() + X[3])


@pytest.mark.row("C:inv5")
@pytest.mark.parametrize("name", CALLS)
def test_positions_that_eager_refuses_are_refused(name: str) -> None:
    place, row = CALLS[name]
    for message, refused in row.bad.items():
        for one in refused:
            given = good()
            given[place] = torch.tensor(one)
            with pytest.raises((IndexError, RuntimeError)):
                row.step(X, given[place])
            with pytest.raises(AssertionFailed, match=rf"{message}\n *aten.{row.operator}\."):
                model()(X, given)
