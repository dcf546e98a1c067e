"""Sizes that are computed and may be 1: right where no model asks, else tried or refused."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import lambdify
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Mod

import aotpack
from aotpack.errors import TraceError
from aotpack.trace.diagnostics.assumed import TooManySets, cases_at_ones

GIVEN = {"x": torch.randn(3, 8, 4), "y": torch.randint(0, 4, (3, 8))}


class Calls(nn.Module):
    """A function of both inputs."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module) -> None:
        super().__init__()
        self.function, self.layer = function, layer
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.calls.add_(1)
        return self.function(self, x, y)


def shapes(batch: int, length: int) -> Any:
    """One declaration for both."""
    both = {0: Dim("B", min=batch, max=6), 1: Dim("T", min=length, max=40)}
    return {"x": both, "y": both}


def prefix(whole: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The first rows and columns of a memory are written, at most all."""
    whole[: x.shape[0], : x.shape[1]] = x
    return whole


class Crossed(nn.Module):
    """Attention, with its weights, whose keys have a length of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor, keys: torch.Tensor) -> Any:
        return self.attention(x, keys, keys)


def test_a_size_of_one_under_a_guard() -> None:
    batch, queries, keys = (Dim(name, min=1, max=6) for name in ("batch", "queries", "keys"))
    model, given = Crossed().eval(), (torch.randn(3, 5, 8), torch.randn(3, 4, 8))
    shapes = ({0: batch, 1: queries}, {0: batch, 1: keys})
    package = aotpack.compile(model, given, dynamic_shapes=shapes, target="cpu")
    for sizes in itertools.product((1, 2, 6), (1, 2), (1, 5)):
        x, y = (torch.randn(sizes[0], length, 8) for length in sizes[1:])
        with torch.no_grad():
            torch.testing.assert_close(package(x, y), model(x, y), rtol=1e-4, atol=1e-5)


def test_ends_that_may_meet() -> None:
    class Ends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x[:3], x[x.shape[0] - 3 :]])

    shapes = ({0: Dim("rows", min=1, max=40)},)
    package = aotpack.compile(Ends(), (torch.randn(8, 6),), dynamic_shapes=shapes, target="cpu")
    for rows in (1, 2, 3, 7, 40):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(package(x), Ends()(x))


class Asks(nn.Module):
    """Values that follow from how a part of a tensor lies, of which torch notes nothing."""

    def __init__(self, part: Callable[[Any, torch.Tensor], torch.Tensor], order: Any) -> None:
        super().__init__()
        self.part, self.order = part, order
        self.register_buffer("rows", torch.randn(4, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        asked = {} if self.order is None else {"memory_format": self.order}
        return self.part(self, x) * (2.0 if self.part(self, x).is_contiguous(**asked) else 3.0)


LAST = torch.channels_last
ASKS: dict[str, tuple[Any, tuple[int, ...], Any, Any]] = {
    "columns": (
        lambda s, x: x[:, : x.shape[0]],
        (5, 6, 3),
        {0: Dim("a", min=2, max=12), 1: Dim("b", min=2, max=12)},
        None,
    ),
    "automatic": (lambda s, x: s.rows[:, : x.shape[0]], (5,), {0: Dim.AUTO}, None),
    "named": (lambda s, x: s.rows[:, : x.shape[0]], (5,), {0: Dim("a", min=1, max=12)}, None),
    "channels": (lambda s, x: x, (2, 3, 4, 6), {1: Dim("c", min=1, max=9)}, LAST),
}


@pytest.mark.parametrize(("part", "size", "shapes", "order"), ASKS.values(), ids=ASKS)
def test_a_model_that_asks_how_a_part_lies(part: Any, size: Any, shapes: Any, order: Any) -> None:
    model, given = Asks(part, order).eval(), (torch.randn(size),)
    with pytest.raises(TraceError, match="gives another function than the model: where "):
        aotpack.compile(model, given, dynamic_shapes=(shapes,), target="cpu")


def test_a_layout_that_no_value_follows_from() -> None:
    class Copies(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            is_last = x.is_contiguous(memory_format=LAST)
            return (x if is_last else x.contiguous()) * 2

    shapes = ({1: Dim("c", min=1, max=9)},)
    given = (torch.randn(2, 3, 4, 6),)
    package = aotpack.compile(Copies(), given, dynamic_shapes=shapes, target="cpu")
    for channels in (1, 2, 9):
        x = torch.randn(2, channels, 4, 6)
        torch.testing.assert_close(package(x), x * 2)


RIGHT: dict[str, tuple[Callable[..., Any], nn.Module]] = {
    "columns": (lambda s, x, y: (x[:, 1:] * 2, y.mT.contiguous()), nn.Identity()),
    "every second": (lambda s, x, y: x[:, ::2].transpose(0, 1).contiguous(), nn.Identity()),
    "half": (
        lambda s, x, y: x[:, : x.shape[1] // 2].transpose(0, 1).contiguous().flatten(1),
        nn.Identity(),
    ),
    "GRU": (lambda s, x, y: s.layer(x[:, 1:])[0], nn.GRU(4, 5, batch_first=True)),
    "encoder": (
        lambda s, x, y: s.layer(x[:, 1:]),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    ),
    "attention": (
        lambda s, x, y: s.layer(x[:, 1:], x, x)[0],
        nn.MultiheadAttention(4, 2, batch_first=True),
    ),
    "loss": (
        lambda s, x, y: F.cross_entropy(x[:, :-1].flatten(0, 1), y[:, 1:].flatten()),
        nn.Identity(),
    ),
    "unused": (lambda s, x, y: x.diff(dim=1), nn.Identity()),
    "prefix": (lambda s, x, y: prefix(torch.zeros(6, 40, 4), x), nn.Identity()),
    "windows": (lambda s, x, y: x.mT.unfold(2, 2, 2).flatten(2) * 2, nn.Identity()),
    "cut": (lambda s, x, y: x[:, :2].reshape(-1, 8), nn.Identity()),
    "areas": (lambda s, x, y: torch.cumulative_trapezoid(x, dim=1), nn.Identity()),
}


@pytest.mark.parametrize(("function", "layer"), RIGHT.values(), ids=RIGHT)
def test_a_computed_size_of_one(function: Callable[..., Any], layer: nn.Module) -> None:
    model = Calls(function, layer).eval()
    how: Any = {"dynamic_shapes": shapes(1, 2), "target": "cpu"}
    package = aotpack.compile(model, args=(), kwargs=GIVEN, **how)
    for batch, length in ((1, 2), (1, 3), (2, 2), (6, 2), (5, 40), (6, 40)):
        x, y = torch.randn(batch, length, 4), torch.randint(0, 4, (batch, length))
        with torch.no_grad():
            torch.testing.assert_close(package(x=x, y=y), model(x, y), rtol=1e-4, atol=1e-5)


def asked(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    rest = y[:, 1:]
    return rest.mT.contiguous(), x * 3 if rest.shape[1] == 1 else x


def asked_of_another(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    return y[:, 1:].mT.contiguous(), x * 3 if x.shape[1] == 2 and x.shape[0] == 5 else x


def laid_out(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    rest = y[:, 1:].clone()
    return x * 3 if rest.mT.is_contiguous() else x


def laid_out_together(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    """Neither size of 1 alone makes it contiguous."""
    turned = (x[1:, 1:] * 2).permute(2, 0, 1)
    return x * 3 if turned.is_contiguous() else turned.contiguous()


def stepped(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * y[:, 1:].clone().mT.contiguous().stride(0)


def written(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    whole = y * 1
    row = whole[:1, ::2].contiguous()
    row += 1
    return whole, row


def one_of_eight(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] // 8 == 1 else x


def checked(self: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
    torch._check(y.shape[1] - 1 != 1)
    return x * 2, y[:, 1:].mT.contiguous()


LONGER = r"those where\n  T >= 3: T is dimension 1(.|\n)*Declare Dim\('T', min=3, max=40\) for"
WRONG = {
    "asked": (asked, LONGER),
    "asked of another": (asked_of_another, LONGER),
    "how it lies": (laid_out, LONGER),
    "how it lies together": (laid_out_together, "another function than the model: where B=2, T=2"),
    "a stride": (stepped, "another function than the model: where B=3, T=2"),
    "a view": (written, "another function than the model"),
    "checked": (checked, LONGER),
}


@pytest.mark.parametrize(("function", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("least", [(2, 2), (2, 3)])
def test_another_function_of_a_computed_size(
    function: Callable[..., Any], words: str, least: tuple[int, int]
) -> None:
    model = Calls(function, nn.Identity())
    how: Any = {"dynamic_shapes": shapes(*least), "target": "interpreter"}
    if least[1] == 3:
        assert aotpack.compile(model, args=(), kwargs=GIVEN, **how)
        return
    with pytest.raises(TraceError, match=words):
        aotpack.compile(model, args=(), kwargs=GIVEN, **how)


@pytest.mark.parametrize(("least", "most"), [(2, 40), (8, 15)])
def test_a_computed_size_that_is_one_is_not_assumed(least: int, most: int) -> None:
    model = Calls(one_of_eight, nn.Identity())
    both = {1: Dim("T", min=least, max=most)}
    how: Any = {"dynamic_shapes": {"x": both, "y": both}, "target": "interpreter"}
    if most == 15:
        assert aotpack.compile(model, args=(), kwargs=GIVEN, **how)
        return
    with pytest.raises(TraceError, match=r"those where\n  T >= 8 and T <= 15:"):
        aotpack.compile(model, args=(), kwargs=GIVEN, **how)


SYMBOLS = sympy.symbols("s0 s1 s2", integer=True, positive=True)
PRINTED = {"FloorDiv": operator.floordiv, "Mod": operator.mod}
SIZES = st.one_of(
    st.builds(lambda s, n: s - n, st.sampled_from(SYMBOLS), st.integers(1, 9)),
    st.builds(lambda s, n: FloorDiv(s, n), st.sampled_from(SYMBOLS), st.integers(2, 6)),
    st.builds(lambda s, n: 1 + Mod(s, n), st.sampled_from(SYMBOLS), st.integers(2, 5)),
    st.builds(lambda s, t: s - t, st.sampled_from(SYMBOLS[:1]), st.sampled_from(SYMBOLS[1:])),
)


RANGES = {"s0": (1, 13), "s1": (1, 11), "s2": (2, 9)}
EVERY = [*itertools.product(*(range(low, high + 1) for low, high in RANGES.values()))]


@settings(deadline=None, max_examples=200)
@given(st.lists(SIZES, min_size=1, max_size=4), st.lists(SIZES, max_size=2))
def test_every_set_of_sizes_that_are_one_together_has_a_case(
    asked: list[Any], others: list[Any]
) -> None:
    """Against all sizes of three short ranges."""
    computed = [lambdify(SYMBOLS, size, PRINTED) for size in (*asked, *others)]

    def ones(case: tuple[int, ...]) -> tuple[bool, ...]:
        return *(one(*case) == 1 for one in computed), *(n == 1 for n in case)

    def conditions(sizes: list[Any]) -> list[Any]:
        return [sympy.Ne(size, 1) for size in sizes]

    every = {found for found in map(ones, EVERY) if any(found[: len(computed)])}
    example = {"s0": 8, "s1": 7, "s2": 5}
    try:
        cases = cases_at_ones(conditions(asked), conditions(others), RANGES, example)
    except TooManySets:
        assert len({one for one in every if any(one[: len(asked)])}) > 64
        return
    found = {ones(tuple(case[name] for name in RANGES)) for case in cases}
    assert found == every or (len(every) > 64 == len(found) and found < every)
    assert {one for one in every if any(one[: len(asked)])} <= found


def test_more_sets_than_are_tried_are_refused() -> None:
    size = SYMBOLS[0]
    asked = [sympy.Ne(size - n, 1) for n in range(1, 80)]
    with pytest.raises(TooManySets):
        cases_at_ones(asked, [], {"s0": (1, 200)}, {"s0": 100})
    assert len(cases_at_ones(asked[:9], [], {"s0": (1, 200)}, {"s0": 100})) == 9
    assert len(cases_at_ones(asked[:1], asked, {"s0": (1, 200)}, {"s0": 100})) == 64
