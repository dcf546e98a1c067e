"""What data leave empty: nothing is loaded of it, in any order of scatters."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

import aotpack

ROWS = Dim("n", min=1, max=64)


class Searches(nn.Module):
    """Tables that are searched."""

    def forward(self, x: Tensor, chosen: Tensor) -> Any:
        table = x[:, 0][chosen[:, 0]]
        values = x[:, 1].contiguous()
        return (
            torch.searchsorted(table.sort().values, values),
            torch.searchsorted(table, values, sorter=table.argsort(), right=True),
            torch.bucketize(values, table.abs().cumsum(0)),
            torch.isin(values.int(), table.int()),
        )


class Scatters(nn.Module):
    """Rows that are written, as those of an expert that has no token."""

    def forward(self, x: Tensor, chosen: Tensor) -> Any:
        rows, columns = torch.where(chosen)
        none, one = torch.zeros_like(x), torch.zeros_like(x[:, 0])
        taken = x[rows]
        return (
            none.index_add(0, rows, taken),
            torch.zeros(4, 4).index_add(0, columns, taken),
            one.scatter_add(0, rows, taken[:, 0]),
            one.scatter_reduce(0, rows, taken[:, 0], "amax"),
            one.scatter_reduce(0, rows, taken[:, 0], "prod", include_self=False),
            none.index_put((rows, columns), x[rows, columns], accumulate=True),
            none.index_put((rows, columns), x[rows, columns]),
            F.embedding_bag(rows, x, torch.zeros(2, dtype=torch.long), mode="sum"),
            torch.unique(rows, return_counts=True),
        )


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("model", [Searches(), Scatters()], ids=["searches", "scatters"])
def test_of_nothing(model: nn.Module, deterministic: bool) -> None:
    x = torch.randn(6, 4)
    package = aotpack.compile(
        model,
        (x, x > 0),
        dynamic_shapes=({0: ROWS}, {0: ROWS}),
        target="cpu",
        deterministic=deterministic,
    )
    for least, size in itertools.product((9.0, 0.0), (6, 1, 33)):  # the first call selects nothing
        x = torch.randn(size, 4)
        torch.testing.assert_close(package(x, x > least), model(x, x > least))


def test_of_nothing_as_kernels_of_a_gpu() -> None:
    x = torch.randn(3, 4)
    shapes = ({0: ROWS}, {0: ROWS})
    package = aotpack.compile(Searches(), (x, x > 0), dynamic_shapes=shapes, target="interpreter")
    for least in (9.0, 0.0):
        torch.testing.assert_close(package(x, x > least), Searches()(x, x > least))


class Behind(nn.Module):
    """Rows behind the third, of which there may be none, are added to."""

    def forward(self, x: Tensor) -> Any:
        made, columns, rows = x * 1, torch.tensor([2, 0]), torch.arange(x[3:].shape[0])
        made[3:].index_add_(1, columns, x[3:, :2])
        made[3:].index_add_(0, rows, x[3:])
        branches = torch.cond(
            x.sum() > 0,
            lambda x, columns: x[3:].index_add(1, columns, x[3:, :2]) * 2,
            lambda x, columns: x[3:].index_copy(1, columns, x[3:, :2]),
            (x, columns),
        )
        return made, x[3:].index_add(1, columns, x[3:, :2], alpha=2), branches


@pytest.mark.parametrize("deterministic", [False, True])
def test_of_no_rows(deterministic: bool) -> None:
    model = Behind()
    package = aotpack.compile(
        model,
        (torch.ones(6, 4),),
        dynamic_shapes=({0: ROWS},),
        target="cpu",
        deterministic=deterministic,
    )
    for size, sign in itertools.product((6, 1, 2, 3, 4, 33), (1, -1)):
        x = sign * torch.rand(size, 4)
        columns = torch.tensor([2, 0])
        made, added, branches = package(x)
        expected = x[3:].index_add(1, columns, x[3:, :2])
        torch.testing.assert_close(made, torch.cat([x[:3], expected + x[3:]]))
        torch.testing.assert_close(added, x[3:].index_add(1, columns, x[3:, :2], alpha=2))
        other = x[3:].index_copy(1, columns, x[3:, :2])
        torch.testing.assert_close(branches, expected * 2 if sign > 0 else other)


class Given(nn.Module):
    """Rows are added to those behind the third."""

    def forward(self, x: Tensor, rows: Tensor, added: Tensor) -> Tensor:
        return x[3:].index_add(0, rows, added)


def test_rows_for_none_are_refused() -> None:
    args = torch.ones(6, 4), torch.tensor([0, 1]), torch.ones(2, 4)
    words = r"index_add.default needs .* >= 1.*, which does not hold for n_=1\. Give .* min=4"
    with pytest.raises(aotpack.AotpackError, match=words):
        aotpack.compile(Given(), args, dynamic_shapes=({0: ROWS}, None, None), target="cpu")
