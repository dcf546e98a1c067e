"""Sorting in whole models: every oracle gives eager's order, elements and positions alike."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError
from aotpack.target import CPU, INTERPRETER

from .oracle import agree, compile_all

NAN, INF = float("nan"), float("inf")
ODD_FLOATS = torch.tensor([NAN, -INF, INF, 0.0, -0.0, NAN, 1.5, -2.0, 1.5])
ODD_INTEGERS = torch.tensor([2**63 - 1, -(2**63), 0, -1, 7, 7, 2**62])
SHORT = (0, 1, 2, 3, 63, 64, 65)
BOTH = (INTERPRETER, CPU)


class Sorted(nn.Module):
    """Every input in both orders along its last dimension."""

    def forward(self, *rows: torch.Tensor) -> Any:
        ordered = [torch.sort(x, stable=True, descending=d) for x in rows for d in (False, True)]
        return [part for pair in ordered for part in pair]


class Function(nn.Module):
    """A function of some tensors."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def drawn(dtype: torch.dtype, n: int) -> torch.Tensor:
    """Two rows with ties; odd numbers of the type among them where they fit."""
    rows = torch.randint(-9, 9, (2, n)).to(dtype)
    odd = ODD_FLOATS if dtype.is_floating_point else ODD_INTEGERS
    if n > len(odd) and dtype in (torch.int64, torch.float32, torch.float64, torch.bfloat16):
        rows[0, torch.randperm(n)[: len(odd)]] = odd.to(dtype)
    return rows


@pytest.mark.row("S:B21", "C:G16", "S:inv31", "C:inv22")
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float64,
        torch.int64,
        torch.uint8,
        torch.bool,
    ],
    ids=str,
)
def test_short_rows(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows = tuple(drawn(dtype, n) for n in SHORT)
    agree(compile_all(Sorted(), rows, targets=BOTH), rows)


@pytest.mark.parametrize(("dtype", "n"), [(torch.float32, 5000), (torch.int64, 1025)], ids=str)
def test_long_rows_are_merged(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(0)
    rows = (drawn(dtype, n),)
    agree(compile_all(Sorted(), rows, targets=(CPU,)), rows)


def test_merges_of_dynamic_rows() -> None:
    torch.manual_seed(0)
    module = Function(lambda x: [*torch.sort(x, stable=True), x.topk(1).values])
    example = (drawn(torch.float32, 300),)
    sizes = {"args": ({1: Dim("n", min=1, max=600)},)}
    compiled = compile_all(module, example, dynamic_shapes=sizes, targets=(CPU,))
    for n in (1, 2, 63, 64, 65, 128, 129, 512, 513, 600):
        agree(compiled, (drawn(torch.float32, n),))
    interpreted = compile_all(module, example, dynamic_shapes=sizes)
    agree(interpreted, (drawn(torch.float32, 257),))


def test_columns_and_fused_neighbours() -> None:
    torch.manual_seed(0)

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        values, positions = torch.sort(x * 2 + y, dim=0, stable=True)
        top = (x + y).softmax(1).topk(2)
        return values.cumsum(0), positions + 1, top.values / top.values.sum(1, True), top.indices

    args = (torch.randn(6, 5), torch.randn(6, 5))
    agree(compile_all(Function(function), args, targets=BOTH), args)


def test_topk_of_a_long_row_keeps_few() -> None:
    torch.manual_seed(0)
    args = (torch.randperm(3000).float().view(2, 1500),)
    compiled = compile_all(Function(lambda x: [*x.topk(5)]), args, targets=(CPU,))
    agree(compiled, args)
    stored = {name for kernel in compiled.scheduled.schedule.kernels for name in kernel.stored}
    buffers = compiled.scheduled.schedule.program.buffers
    rows = sorted(int(buffers[name].shape[1]) for name in stored)
    assert rows == [5, 5, 5, 5, 5, 5, 1500]  # how many so far, for each place; the rest is short


def test_equal_values_keep_their_order() -> None:
    x = torch.randint(0, 3, (4, 40), generator=torch.Generator().manual_seed(0)).float()

    def first(x: torch.Tensor) -> Any:
        return x.topk(3)[1], x.kthvalue(4)[1], x.sort(descending=True)[1]

    rising, falling = (x.sort(stable=True, descending=d)[1] for d in (False, True))
    found = aotpack.compile(Function(first), (x,), target="cpu")(x)
    for one, wanted in zip(found, (falling[:, :3], rising[:, 3], falling), strict=True):
        assert torch.equal(one, wanted)


def test_topk_of_types_of_every_width() -> None:
    """Of equal elements eager may take any: at the places found, its numbers must be."""
    torch.manual_seed(0)
    types = (torch.bfloat16, torch.float64, torch.uint8)
    rows = tuple(drawn(dtype, 90) for dtype in types)

    def function(*rows: torch.Tensor) -> Any:
        firsts = [(x, x.topk(7, largest=x.is_floating_point())) for x in rows]
        return [part for x, first in firsts for part in (first.values, x.gather(1, first.indices))]

    agree(compile_all(Function(function), rows, targets=BOTH), rows)


def test_topk_of_a_dynamic_row() -> None:
    torch.manual_seed(0)
    module = Function(lambda x: [*x.topk(3), *x.topk(2, largest=False)])
    example = (drawn(torch.float32, 700),)
    sizes = {"args": ({1: Dim("n", min=4, max=5000)},)}
    compiled = compile_all(module, example, dynamic_shapes=sizes, targets=BOTH)
    for n in (4, 15, 16, 17, 512, 513, 1700):
        agree(compiled, (torch.randperm(2 * n).float().view(2, n),))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "n", "k"),
    [
        (torch.float32, 50304, 50),
        (torch.bfloat16, 50304, 50),
        (torch.int16, 4099, 33),
        (torch.float32, 128256, 8),
        (torch.float32, 50304, 600),
        (torch.float64, 1000, 1000),
    ],
    ids=str,
)
def test_the_first_of_long_rows_on_a_gpu(dtype: torch.dtype, n: int, k: int) -> None:
    """Positions of small places in pairs, of which ptxas has computed some wrongly."""
    torch.manual_seed(0)
    rows = (torch.randn(64, n) * 100).to(dtype)
    module = Function(lambda x: x.topk(k))
    model = aotpack.compile(module, (rows,), target="native")
    values, positions = model(rows.cuda())
    assert torch.equal(values.cpu(), rows.topk(k).values)
    assert torch.equal(rows.gather(1, positions.cpu()), values.cpu())
    assert positions.sort(1).values.diff(dim=1).min() > 0  # none is there twice


def test_topk_of_a_row_without_a_bound() -> None:
    """Many runs or one; stores may go past the caches, by a count of bytes that divides sizes."""
    torch.manual_seed(0)
    module = Function(lambda x: [*x.topk(3)])
    sizes = {"args": ({1: Dim("n", min=4)},)}
    compiled = compile_all(module, (torch.randn(2, 700),), dynamic_shapes=sizes, targets=(CPU,))
    for n in (4, 8192, 8193, 20_000):
        agree(compiled, (torch.randperm(2 * n).float().view(2, n),))


def lower_median(x: torch.Tensor) -> torch.Tensor:
    return x.kthvalue((x.shape[0] + 1) // 2, 0).values


def test_an_element_that_a_size_names() -> None:
    shapes = {"args": ({0: Dim("n", min=1, max=40)},)}
    compiled = compile_all(Function(lower_median), (torch.randn(9, 2),), dynamic_shapes=shapes)
    for rows in (1, 2, 7, 40):
        agree(compiled, (torch.randn(rows, 2),))


def test_an_element_that_a_size_lacks_is_refused() -> None:
    shapes = {"args": ({0: Dim("n", min=1, max=40)},)}
    model = Function(lambda x: x.kthvalue((x.shape[0] + 3) // 2, 0).values)
    with pytest.raises(AotpackError, match="right only for some of the sizes"):
        aotpack.compile(model, (torch.randn(9, 2),), dynamic_shapes=shapes, target="cpu")


@pytest.mark.row("C:F16")
def test_order_statistics_and_searches() -> None:
    torch.manual_seed(0)

    def function(x: torch.Tensor, edges: torch.Tensor) -> Any:
        places = torch.searchsorted(edges, x, right=True)
        members = torch.isin(places, torch.tensor([1, 3]))
        middle = [*x.median(1), *x.kthvalue(2, 1), x.nanmedian(), x.quantile(0.3, dim=1)]
        return [*middle, x.mode(0).values, places, members, *(x > 0).cummax(1)]

    args = (torch.randn(4, 9), torch.randn(6).sort().values)
    agree(compile_all(Function(function), args, targets=BOTH), args)
