"""Conditions that torch derives and cannot prove: taken where they hold, else refused."""

from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Mod
from torch.utils._sympy.value_ranges import ValueRanges

import aotpack
from aotpack.errors import TraceError
from aotpack.trace.diagnostics import derived
from aotpack.trace.diagnostics.derived import is_proved

POOLING = {
    "max": nn.MaxPool2d(3, 2, ceil_mode=True),
    "max, padded": nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
    "mean": nn.AvgPool2d(2, 2, ceil_mode=True),
    "powers": nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True), nn.LPPool2d(2, 1)),
}


@pytest.mark.parametrize("low", [2, 3])
@pytest.mark.parametrize("case", POOLING)
def test_pooling_of_what_is_left(*, case: str, low: int) -> None:
    module = POOLING[case]
    shapes: Any = ({2: Dim("h", min=low, max=40), 3: Dim("w", min=low)},)
    given = (torch.randn(2, 3, 12, 14),)
    model = aotpack.compile(module, given, dynamic_shapes=shapes, target="interpreter")
    for height in (low, low + 1, low + 2, 17, 40):
        x = torch.randn(2, 3, height, 2 * low + 1)
        torch.testing.assert_close(model(x), module(x))


class Rare(nn.Module):
    """Another function for one size; the other condition always holds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = F.max_pool2d(x, 3, 2, ceil_mode=True)
        return pooled * 2 if x.shape[2] == 1003 else pooled


@pytest.mark.parametrize("most", [2000, 100_000, None])
def test_a_rare_size_is_not_overlooked(most: int | None) -> None:
    h = Dim("h", min=3) if most is None else Dim("h", min=3, max=most)
    given = (torch.randn(1, 2, 14, 6),)
    with pytest.raises(TraceError, match="h.* != 1003"):
        aotpack.compile(Rare(), given, dynamic_shapes=({2: h},), target="interpreter")


@pytest.mark.parametrize(("most", "is_right"), [(2000, False), (1002, True)])
def test_what_a_program_asserts_holds_or_is_refused(*, most: int, is_right: bool) -> None:
    given = (torch.randn(1, 2, 14, 6),)
    program = torch.export.export(
        Rare(),
        given,
        dynamic_shapes=({2: Dim("h", min=4, max=most)},),
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    if is_right:
        model = aotpack.compile(program, given, target="interpreter")
        x = torch.randn(1, 2, 1002, 6)
        assert torch.equal(model(x), Rare()(x))
    else:
        with pytest.raises(TraceError, match="the program asserts h != 1003"):
            aotpack.compile(program, given, target="interpreter")


class Shifted(nn.Module):
    """Relative positions as in XLNet, and another function for a batch of one.

    torch derives ``(2*n - 1) % n != 0``, which holds for all lengths from 2 on.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        scores = x @ torch.cat([x, x], 1).transpose(1, 2)
        turned = scores.reshape(batch, 2 * length, length)[:, 1:]
        shifted = turned.reshape(batch, length, 2 * length - 1)[:, :, :length]
        return shifted * 2 if batch == 1 else shifted


@pytest.mark.parametrize(("low", "is_right"), [(1, False), (2, True)])
def test_the_condition_that_fails_is_told(*, low: int, is_right: bool) -> None:
    given = (torch.randn(3, 13, 4),)
    shapes: Any = ({0: Dim("batch", min=low, max=9), 1: Dim("length", min=2, max=40)},)
    if is_right:
        model = aotpack.compile(Shifted(), given, dynamic_shapes=shapes, target="interpreter")
        for batch, length in ((2, 2), (9, 7)):
            x = torch.randn(batch, length, 4)
            torch.testing.assert_close(model(x), Shifted()(x))
        return
    with pytest.raises(TraceError, match=r"another function .* where batch=1,") as refusal:
        aotpack.compile(Shifted(), given, dynamic_shapes=shapes, target="interpreter")
    assert "%" not in str(refusal.value)


N = sympy.Symbol("n")
ROWS = sympy.Symbol("rows", integer=True, positive=True)
PROVED = [
    2 * FloorDiv(N, 2) < N + 2,
    2 * FloorDiv(N - 1, 2) < N,
    sympy.Eq(Mod(6 * N, 3), 0, evaluate=False),
    FloorDiv(N, 2) + FloorDiv(N + 1, 2) <= N,
    sympy.Ne(N + 1, 1),
]
NOT_PROVED = [
    sympy.Ne(N, 1003),
    sympy.Eq(Mod(N, 3), 0, evaluate=False),
    N < 1_000_000,
    N * N > N,
    2 * FloorDiv(N, 2) >= N,
    3 * FloorDiv(N, 2) < N + 2,
]


@pytest.mark.parametrize("condition", PROVED, ids=str)
def test_periodic_conditions_are_proved(condition: sympy.Rel) -> None:
    assert is_proved(condition, N, 1, {})


@pytest.mark.parametrize("condition", NOT_PROVED, ids=str)
def test_others_are_not(condition: sympy.Rel) -> None:
    assert not is_proved(condition, N, 1, {})


def test_other_sizes_have_the_numbers_of_a_case() -> None:
    condition = FloorDiv(N, ROWS) * ROWS * 3 <= N * 3
    assert is_proved(condition, N, 1, {ROWS: 4})
    assert not is_proved(condition, N, 1, {})
    assert not is_proved(FloorDiv(N, ROWS) * ROWS > N - 4, N, 1, {ROWS: 5})


@pytest.mark.parametrize("high", [9, 2**20])
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (sympy.Max(ROWS, 2) * N > N, True),
        (sympy.Max(ROWS, 2) * N < N, False),
        (sympy.Max(ROWS, 2) < ROWS, False),
        (sympy.Or(ROWS > 9, N < 0), False),
        (sympy.And(ROWS > 9, N > 0), False),
    ],
    ids=str,
)
def test_conditions_of_other_forms_hold_or_not(
    condition: sympy.Basic, high: int, *, holds: bool
) -> None:
    ranges = {ROWS: ValueRanges(1, 4), N: ValueRanges(1, high)}
    assert derived._holds(condition, ranges) is holds


class Windows(nn.Module):
    """Windows of 4 by 4 elements of a padded image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
        count, rows, columns, channels = x.shape
        x = x.view(count, rows // 4, 4, columns // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, 16, channels).softmax(1)
        x = x.view(count, rows // 4, columns // 4, 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(count, rows, columns, channels)[:, :height, :width].contiguous()


def test_conditions_on_three_sizes_are_tried() -> None:
    sizes = {0: Dim("count", min=1, max=16)}
    sizes |= {axis: Dim(name, min=1, max=32) for axis, name in ((1, "height"), (2, "width"))}
    model = aotpack.compile(
        Windows(), (torch.randn(2, 11, 8, 3),), dynamic_shapes=(sizes,), target="interpreter"
    )
    for shape in ((1, 1, 1, 3), (2, 5, 31, 3), (3, 32, 4, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(model(x), Windows()(x))


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool1d(x.view(-1, 3), 2, 2, ceil_mode=True)


def test_a_condition_that_may_fail_is_refused() -> None:
    given = (torch.randn(6, 4),)
    with pytest.raises(TraceError, match=r"right only for some of the sizes(.|\n)*% 3"):
        aotpack.compile(
            Rows(), given, dynamic_shapes=({0: Dim("n", max=50)},), target="interpreter"
        )


class Share(nn.Module):
    """Of a size, a share that torch takes as a float: the example's number would stay."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count = int(x.shape[0] * 0.6)
        return x[:count], x * count


@pytest.mark.parametrize(("low", "most", "is_right"), [(3, 50, False), (7, 8, True)])
def test_a_share_of_a_size_is_refused_where_it_is_another(
    *, low: int, most: int, is_right: bool
) -> None:
    given = (torch.randn(7, 6),)
    how: Any = {"dynamic_shapes": ({0: Dim("n", min=low, max=most)},), "target": "interpreter"}
    if not is_right:
        with pytest.raises(TraceError, match=r"only for some of the sizes(.|\n)*0\.6"):
            aotpack.compile(Share(), given, **how)
        return
    model = aotpack.compile(Share(), given, **how)
    for rows in (low, most):
        x = torch.randn(rows, 6)
        assert all(map(torch.equal, model(x), Share()(x)))


OF_TORCH = """
def evens(x, deep):
    if deep:  # more frames of torch than a question of the model has
        return evens(x, deep - 1)
    return x * 2 if ASKED else x * 3
"""


@pytest.mark.parametrize("asked", ["x.shape[0] % 2 == 0", "x.shape[0] % 2", "(x.shape[0] + 1) % 4"])
def test_a_remainder_that_torch_asks_for_is_no_count_of_elements(asked: str) -> None:
    names: dict[str, Any] = {}
    file = str(Path(torch.__file__).with_name("evens.py"))
    exec(compile(OF_TORCH.replace("ASKED", asked), file, "exec"), names)

    class Asks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = names["evens"](x, 12)
            return found

    shapes = ({0: Dim("n", min=1, max=64)},)
    with pytest.raises(TraceError, match=r"right only for some of the sizes(.|\n)*% [24]\)? != 0"):
        aotpack.compile(Asks(), (torch.randn(9, 4),), dynamic_shapes=shapes, target="interpreter")


def test_a_count_of_elements_may_be_made_of_a_remainder() -> None:
    class Rest(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            count = x.shape[0] % 8
            return x.new_ones(count, 4).t().contiguous(), x[:count].t().reshape(-1)

    shapes = ({0: Dim("n", min=1, max=64)},)
    model = aotpack.compile(
        Rest(), (torch.randn(7, 4),), dynamic_shapes=shapes, target="interpreter"
    )
    for rows in (1, 2, 8, 9, 63, 64):
        x = torch.randn(rows, 4)
        assert all(map(torch.equal, model(x), Rest()(x)))
