"""Bags of embeddings, as a model writes them, and histograms."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.errors import UnsupportedError
from aotpack.lower import lower
from aotpack.trace import trace
from tests.lower.oracle import Case, case, check_traced, floats

TABLE = floats(7, 4)
IDS = torch.tensor([0, 2, 2, 6, 1, 3, 3, 0])
STARTS = torch.tensor([0, 3, 3, 4, 8])  # the second bag and the last are empty
PAIRS = IDS.reshape(4, 2)

Function = Callable[..., torch.Tensor]


class Bags(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, table: torch.Tensor, ids: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return self.function(table, ids, more)


def bag(**options: object) -> Function:
    def function(table: torch.Tensor, ids: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(ids, table, starts, **options)  # type: ignore[arg-type]

    return function


def pairs(**options: object) -> Function:
    """Bags of two, given as a matrix."""

    def function(table: torch.Tensor, ids: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(ids, table, **options) * 2  # type: ignore[arg-type]

    return function


def bare(table: torch.Tensor, ids: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._embedding_bag_forward_only(table, ids, starts, mode=1)[0]


def weighted(table: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(ids, table, mode="sum", per_sample_weights=weights)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (bag(mode="sum"), (TABLE, IDS, STARTS)),
        (bag(mode="mean"), (TABLE, IDS, STARTS)),
        (bag(mode="max"), (TABLE, IDS, STARTS)),
        (bag(mode="mean"), (TABLE, IDS.int(), STARTS.int())),
        (bag(mode="mean"), (TABLE, IDS[:0], torch.tensor([0, 0]))),
        (bag(mode="sum", include_last_offset=True), (TABLE, IDS, STARTS)),
        (bag(mode="mean", padding_idx=3), (TABLE, IDS, STARTS)),
        (bag(mode="max", padding_idx=-5), (TABLE, IDS, STARTS)),
        (bare, (TABLE, IDS, STARTS)),
        (weighted, (TABLE, PAIRS, floats(4, 2))),
        (pairs(mode="mean"), (TABLE, PAIRS, STARTS)),
        (pairs(mode="mean", padding_idx=3), (TABLE, PAIRS, STARTS)),
        (pairs(mode="max", padding_idx=2), (TABLE, PAIRS, STARTS)),
        (pairs(mode="max"), (TABLE.half(), PAIRS, STARTS)),
    ],
)
def test_bags(function: Function, args: tuple[torch.Tensor, ...]) -> None:
    module = Bags(function)
    check_traced(trace(module, args, name="bags", version="1"), module, args)


def test_refuses_results_for_training() -> None:
    def places(table: torch.Tensor, ids: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.embedding_bag(table, ids, starts)[1]

    traced = trace(Bags(places), (TABLE, IDS, STARTS), name="bags", version="1")
    with pytest.raises(UnsupportedError, match="only its first result is accepted"):
        lower(traced)


@pytest.mark.parametrize(
    "case",
    [
        case("histc.default", floats(40), 5, -1, 1),
        case("histc.default", floats(4, 10), 7),
        case("histc.default", torch.ones(3), 4),
        case("histc.default", torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0]), 2, 0, 1),
        case("histc.default", floats(0), 3),
        case("histogram.bin_ct", floats(4, 10), 7),
        case("histogram.bin_ct", floats(0, 2), 3),
        case("histogram.bin_ct", floats(40), 5, range=(-1.0, 1.0), weight=floats(40).abs()),
        case("histogram.bin_ct", torch.ones(3), 4, density=True),
        case("histogram.bins_tensor", floats(40), torch.tensor([-1.0, -0.5, 0.0, 2.0])),
        case("histogram.bins_tensor", torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0.0, 2.0])),
        case("embedding_renorm.default", floats(6, 3), torch.tensor([[0, 2], [2, 5]]), 1.0, 2.0),
    ],
    ids=str,
)
def test_histograms(case: Case) -> None:
    case.check()
