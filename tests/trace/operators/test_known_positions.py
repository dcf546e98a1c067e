"""Tables that are too short for the positions that a dynamic size makes."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import UnsupportedError
from aotpack.runtime.interface.package import Package


class Positions(nn.Module):
    """A table of eight rows, read at positions that sizes of the input decide."""

    def __init__(self, read: Callable[[nn.Embedding, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.read, self.table = read, nn.Embedding(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.read(self.table, x)


def places(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0])


READS: dict[str, tuple[Callable[[nn.Embedding, torch.Tensor], torch.Tensor], int]] = {
    "embedding": (lambda table, x: table(torch.arange(x.shape[0])), 8),
    "of a batch": (lambda table, x: table(torch.arange(x.shape[0])[None].expand(2, -1)), 8),
    "from 2 on": (lambda table, x: table(torch.arange(2, x.shape[0] + 2)), 6),
    "moved": (lambda table, x: table(torch.arange(x.shape[0]) + 3), 5),
    "index": (lambda table, x: table.weight[torch.arange(x.shape[0])], 8),
    "index_select": (
        lambda table, x: table.weight.index_select(0, torch.arange(x.shape[0]) + 1),
        7,
    ),
    "int32": (lambda table, x: table(torch.arange(x.shape[0], dtype=torch.int32)), 8),
    "twice as many": (lambda table, x: table(torch.arange(2 * x.shape[0])), 4),
    "in steps": (lambda table, x: table(torch.arange(x.shape[0])[::2]), 8),
    "behind each other": (lambda table, x: table(places(x).repeat(2).flip(0)), 8),
    "counted": (lambda table, x: table(torch.ones(x.shape[0]).cumsum(0).long()), 7),
    "the last": (lambda table, x: table(torch.tensor([x.shape[0] - 1])), 8),
    "filled": (lambda table, x: table(torch.full((3,), x.shape[0] + 3)), 4),
    "sorted": (lambda table, x: table(places(x).sort(descending=True).values), 8),
    "rounded": (lambda table, x: table(torch.linspace(0, x.shape[0] - 1, 3).long()), 8),
    "half of them": (lambda table, x: table(torch.arange(x.shape[0])[: x.shape[0] // 2]), 17),
    "from the end": (lambda table, x: table.weight[-1 - places(x)], 8),
    "none of few": (lambda table, x: table(torch.arange(3, x.shape[0])), 8),
}


def built(name: str, most: int | None) -> tuple[Positions, Package]:
    torch.manual_seed(0)
    model, dim = Positions(READS[name][0]), Dim("tokens", min=3, max=most)
    shapes = {"x": {0: dim}}
    return model, aotpack.compile(model, (torch.ones(4),), dynamic_shapes=shapes, target="cpu")


@pytest.mark.parametrize("name", READS)
def test_positions_that_stay_inside_are_read(name: str) -> None:
    most = READS[name][1]
    model, packaged = built(name, most)
    for size in range(3, most + 1):
        x = torch.ones(size)
        torch.testing.assert_close(packaged(x), model(x))


@pytest.mark.parametrize("more", [1, 100, None])
@pytest.mark.parametrize("name", READS)
def test_sizes_whose_positions_leave_are_told(name: str, more: int | None) -> None:
    most = READS[name][1]
    how = r"(of|leave) 8 rows: eager raises IndexError"
    words = rf"{how}.*Declare max={most} for tokens,.*_positions\.py:"
    with pytest.raises(UnsupportedError, match=words):
        built(name, None if more is None else most + more)


STAY: dict[str, Callable[[nn.Embedding, torch.Tensor], torch.Tensor]] = {
    "clamped": lambda table, x: table(places(x).clamp(max=7)),
    "remainders": lambda table, x: table((places(x) * 3) % 8),
    "chosen": lambda table, x: table(torch.where(places(x) < 8, places(x), 0)),
    "few": lambda table, x: table(places(x)[:8]),
    "of the tensor": lambda table, x: x[places(x).flip(0)],
    "drawn": lambda table, x: table(torch.randint(0, 8, (x.shape[0],))),
    "by mask": lambda table, x: table(places(x)[places(x) < 8]),
}


@pytest.mark.parametrize("read", STAY.values(), ids=STAY)
def test_computed_positions_that_stay_inside(
    read: Callable[[nn.Embedding, torch.Tensor], torch.Tensor],
) -> None:
    model, shapes = Positions(read), {"x": {0: Dim("tokens", min=2)}}
    packaged = aotpack.compile(model, (torch.rand(4),), dynamic_shapes=shapes, target="cpu")
    if read is STAY["drawn"]:
        assert packaged(torch.rand(30), seed=0).shape == (30, 4)
        return
    for size in (2, 7, 8, 9, 30):
        x = torch.rand(size)
        torch.testing.assert_close(packaged(x), model(x))


def test_positions_of_data_are_the_callers() -> None:
    table = Positions(lambda table, x: table(x.long()))
    packaged = aotpack.compile(
        table,
        (torch.ones(4),),
        dynamic_shapes={"x": {0: Dim("tokens", min=2, max=64)}},
        target="cpu",
    )
    assert packaged(torch.full((20,), 7.0)).shape == (20, 4)


def test_two_sizes_are_told_with_a_case() -> None:
    model = Positions(lambda table, x: table(torch.arange(x.shape[0] + x.shape[1])))
    shapes = {"x": {0: Dim("tokens", min=2, max=5), 1: Dim("s", min=2, max=9)}}
    words = re.escape("raises IndexError where s = 9, tokens = 2. Declare narrower ranges")
    with pytest.raises(UnsupportedError, match=words):
        aotpack.compile(model, (torch.ones(3, 4),), dynamic_shapes=shapes, target="cpu")
