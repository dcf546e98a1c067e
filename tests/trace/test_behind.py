"""Conditions on sizes that a model asks for only where another size is 1."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

Function = Callable[..., torch.Tensor]


class Calls(nn.Module):
    """A function of the input, and of a layer."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.layer = function, nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def a_long_row(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] > 512 else x * 2


def one_length(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] == 37 else x * 2


def the_other_way(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] > 1:
        return x * 2
    return x * 3 if x.shape[0] % 9 == 0 else x * 2


def behind_two(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1:
        x = x * 1
        if x.shape[1] == 1 and x.shape[2] == 11:
            return x * 3
    return x * 2


def together(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] * x.shape[1] == 1 and x.shape[2] == 11 else x * 2


def how_it_lies(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.mT.is_contiguous() and x.shape[2] == 11 else x * 2


def behind_a_layer(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x.mean(2, keepdim=True) * torch.ones(4))[0].sum()
    return y + (x * 3 if x.shape[0] == 1 and x.shape[1] == 37 else x * 2)


def cut(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return (x[:, :200] if x.shape[0] == 1 else x) * 2


def behind_one_another(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] == 7 and x.shape[2] == 11 else x * 2


def on_a_path(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] > 20 and x.shape[1] % 7 == 3 else x * 2


def of_two(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] * x.shape[2] == 77 else x * 2


def squeezed(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.squeeze(1).dim() == 2 and x.shape[0] % 7 == 4 else x * 2


def two_of_three(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.squeeze().dim() == 1 else x * 2


def in_place(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.permute(2, 0, 1).contiguous().mul_(3)
    return y


def named_order(self: Calls, x: torch.Tensor) -> torch.Tensor:
    lies = x.mT.is_contiguous(memory_format=torch.contiguous_format)
    return x * 3 if x.shape[0] == 1 and lies and x.shape[2] == 11 else x * 2


def squeezed_in_place(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = (x * 1).squeeze_(1)
    return x * 3 if y.dim() == 2 and x.shape[0] % 7 == 4 else x * 2


def with_a_table(self: Calls, x: torch.Tensor) -> torch.Tensor:
    """A tensor that forward keeps for speed is none of a fake run."""
    if not hasattr(self, "table"):
        self.table = torch.ones(x.shape[0] * 0 + 1)
    y = x * self.table
    return y * 3 if x.shape[0] == 1 and x.shape[1] > 20 and x.shape[1] % 7 == 3 else y * 2


WRONG = {
    "a long row": (a_long_row, "where B=1, T=513"),
    "one length": (one_length, "where B=1, T=37"),
    "the other way": (the_other_way, "where B=9, T=1"),
    "behind two": (behind_two, "where B=1, T=1, C=11"),
    "together": (together, "where B=1, T=1, C=11"),
    "how it lies": (how_it_lies, "where B=.*T=1, C=11"),
    "behind a layer": (behind_a_layer, "where B=1, T=37"),
    "cut": (cut, "where B=1, T=900"),
    "behind one another": (behind_one_another, "where B=1, T=7, C=11"),
    "on a path": (on_a_path, "where B=1, T=24"),
    "of two": (of_two, "where B=1, T=7, C=11"),
    "squeezed": (squeezed, "where B=4, T=1"),
    "two of three": (two_of_three, "where B=1, T=1, C=5"),
    "in place": (in_place, "where B=3, T=8, C=1"),
    "named order": (named_order, "where B=1, T=1, C=11"),
    "squeezed in place": (squeezed_in_place, "where B=4, T=1"),
    "with a table": (with_a_table, "where B=1, T=24"),
}


def given(least: int) -> dict[str, Any]:
    dims = {0: Dim("B", min=least, max=40), 1: Dim("T", min=least, max=900)}
    return {"dynamic_shapes": {"x": {**dims, 2: Dim("C", min=least, max=16)}}}


@pytest.mark.parametrize(("function", "words"), WRONG.values(), ids=WRONG)
def test_another_function_behind_a_size_of_one(function: Function, words: str) -> None:
    model, x = Calls(function), torch.randn(3, 8, 5)
    with pytest.raises(TraceError, match=f"gives another function than the model: {words}"):
        aotpack.compile(model, (x,), target="interpreter", **given(1))
    assert aotpack.compile(model, (x,), target="interpreter", **given(2))


def a_number(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and int(x.shape[1]) == 37 else x * 2


def half_a_number(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and int(x.shape[1] / 2) == 37 else x * 2


def a_loop(self: Calls, x: torch.Tensor) -> torch.Tensor:
    for turn in range(x.shape[1] if x.shape[0] == 1 else 2):
        x = x * 3 if turn == 500 else x
    return x


def an_element(self: Calls, x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.shape[0] == 1 and x.shape[1] in {37} else x * 2


def raised(x: torch.Tensor) -> None:
    raise ValueError("one row")


def an_error(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1:
        raised(x)
    return x * 2


def a_check(self: Calls, x: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] > 1)
    return x * 2


HIDDEN = {
    "a number": (a_number, r"(?s)where B=1, T=8.*a plain number .*: return x \* 3 if"),
    "half a number": (half_a_number, r"(?s)where B=1, T=8.*a plain number .*: return x \* 3 if"),
    "a loop": (a_loop, r"(?s)where B=1, T=8.*a plain number .*: for turn in"),
    "an element": (an_element, r"(?s)where B=1, T=8.*symbols, TypeError: unhashable"),
    "an error": (
        an_error,
        r"(?s)raises for an admitted size, where B=1, T=8, C=5, ValueError: one",
    ),
    "a check": (a_check, r"(?s)raises for an admitted size, where B=1, T=8, C=5, RuntimeError"),
}


@pytest.mark.parametrize(("function", "words"), HIDDEN.values(), ids=HIDDEN)
def test_what_hides_conditions_is_refused(function: Function, words: str) -> None:
    model, x = Calls(function), torch.randn(3, 8, 5)
    with pytest.raises(TraceError, match=words):
        aotpack.compile(model, (x,), target="interpreter", **given(1))
    assert aotpack.compile(model, (x,), target="interpreter", **given(2))


def test_the_first_elements_alone_tell_nothing() -> None:
    """Other elements are drawn: a mask whose first row is empty, numbers below zero."""

    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (x * 3 if x.shape[0] == 1 else x * 2).relu() * mask

    x, mask = torch.randn(4, 7), torch.ones(4, 7)
    x[0], mask[0] = -1, 0
    rows = {0: Dim("B", min=1, max=9)}
    with pytest.raises(TraceError, match="another function than the model: where B=1"):
        aotpack.compile(Masked(), (x, mask), dynamic_shapes=(rows, rows), target="interpreter")


def test_many_sizes_that_may_be_one() -> None:
    class Each(nn.Module):
        def forward(self, xs: list[torch.Tensor]) -> torch.Tensor:
            return sum((x * 2 if x.shape[0] == 1 else x + x).sum() for x in xs)  # type: ignore[return-value]

    xs = [torch.randn(5 + n, 3) for n in range(18)]
    shapes = {"xs": [{0: Dim(f"d{n}", min=1, max=200)} for n in range(18)]}
    assert aotpack.compile(Each(), (xs,), dynamic_shapes=shapes, target="interpreter")


def chosen(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    return y


def test_control_flow_works_after_a_refusal() -> None:
    """torch compiles it in eager, and skips its functions for good if it meets a mode."""
    x = torch.ones(3, 8, 5)
    model = Calls(lambda _, x: chosen(x) * (3 if x.shape[0] == 1 else 2))
    with pytest.raises(TraceError, match="another function than the model: where B=1, T=8, C=5"):
        aotpack.compile(model, (x,), target="interpreter", **given(1))
    assert torch.equal(chosen(x), x + 1)
    assert torch.equal(aotpack.compile(model, (x,), target="interpreter")(x), x * 4)


def the_same(self: Calls, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1 and x.shape[1] > 37:
        return x + x
    return x * 2


def test_the_same_function_is_accepted() -> None:
    model = Calls(the_same)
    package = aotpack.compile(model, (torch.randn(3, 8, 5),), target="interpreter", **given(1))
    for shape in ((1, 38, 3), (1, 2, 1), (4, 7, 2)):
        x = torch.randn(shape)
        assert torch.equal(package(x), x * 2)


def test_numbers_have_nothing_to_squeeze() -> None:
    model = Calls(lambda _, x: x.sum().squeeze(0) + x.sum().squeeze(-1))
    x = torch.randn(3, 8, 5)
    assert torch.allclose(aotpack.compile(model, (x,), target="interpreter")(x), 2 * x.sum())


class Counts(nn.Module):
    """A counter beside a branch: what follows one is written to the buffer itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x, c: x * 2, lambda x, c: x + c, (x, self.calls))
        self.calls.add_(1)
        return y


def test_a_run_on_symbols_changes_no_state() -> None:
    model, own = Counts(), Counts()
    shapes = {"x": {0: Dim("b", min=1, max=8)}}
    package = aotpack.compile(model, (torch.ones(3, 4),), dynamic_shapes=shapes, target="cpu")
    assert model.calls.tolist() == [0] * 4
    for rows, sign in ((2, -1), (1, 1), (3, -1)):
        x = sign * torch.ones(rows, 4)
        torch.testing.assert_close(package(x), own(x))
