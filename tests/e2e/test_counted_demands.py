"""What operators demand of counted sizes: eager's answer, or an error where eager raises."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import while_loop

import aotpack
from aotpack.errors import AotpackError
from aotpack.runtime.errors import AssertionFailed

from .models import Function
from .oracle import agree, compile_all, tensors

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
SOME = torch.tensor([True, False, True, True, False, True])
TWO, NONE = torch.tensor([False, True, False, False, True, False]), SOME & ~SOME


def written(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    y = x[m].clone()
    y[1:3] = x[:2]
    return y


SUMS = (torch.max, torch.min, torch.mode, torch.median, torch.nanmedian, torch.argmax, torch.argmin)
AT = torch.tensor([0, 1])
EMPTY: dict[str, Callable[..., Any]] = {
    **{f"{f.__name__} of rows": lambda x, m, f=f: f(x[m], dim=0) for f in SUMS},
    "max": lambda x, m: x[m].max(),
    "min": lambda x, m: x[m].int().min(),
    "amax": lambda x, m: x[m].amax((0, 1)),
    "amin": lambda x, m: x[m].amin(0, keepdim=True),
    "aminmax": lambda x, m: torch.aminmax(x[m], dim=0),
    "gather": lambda x, m: x[m].gather(0, AT[:, None]),
    "index_select": lambda x, m: x[m].index_select(0, AT),
    "index": lambda x, m: x[m][AT],
    "embedding": lambda x, m: F.embedding(AT, x[m]),
    "nanquantile": lambda x, m: x[m].flatten().nanquantile(0.3),
    "nearest": lambda x, m: F.interpolate(x[m].T[None], size=3),
    "linear": lambda x, m: F.interpolate(x[m].T[None], size=3, mode="linear"),
    "sampling": lambda x, m: F.grid_sample(x[m][None, None], x.new_zeros(1, 2, 2, 2)),
    "pooling": lambda x, m: F.adaptive_avg_pool1d(x[m].T[None], 2),
}
FEW: dict[str, tuple[Callable[..., Any], str]] = {
    "as_strided": (lambda x, m: x[m].as_strided((2, 4), (4, 1), 4), r"4\*u0 - 12 >= 0"),
    "kthvalue": (lambda x, m: x[m].kthvalue(3, 0), "size u0 2; accepted: 3 to 6"),
    "topk": (lambda x, m: x[m].topk(3, 0), "size u0 2; accepted: 3 to 6"),
    "select": (lambda x, m: x[m][2], "size u0 2; accepted: 3 to 6"),
    "from the end": (lambda x, m: x[m][-3], "size u0 2; accepted: 3 to 6"),
    "narrow": (lambda x, m: x[m].narrow(0, 1, 2), "size u0 2; accepted: 3 to 6"),
    "select_scatter": (lambda x, m: x[m].select_scatter(x[0], 0, 2), "u0 - 2 >= 1"),
    "slice_scatter": (lambda x, m: x[m].slice_scatter(x[:2], 0, 1, 3), r"min\(3, u0\) == 2"),
    "a slice": (written, r"min\(3, u0\) == 2"),
    "index_put": (lambda x, m: x.index_put((m.nonzero()[:, 0],), x[:4]), "u0 == 4"),
    "pad": (lambda x, m: F.pad(x[m], (0, 0, 1, -3)), "u0 - 3 >= 0"),
}


@pytest.mark.row("S:A13")
@pytest.mark.parametrize("function", EMPTY.values(), ids=EMPTY)
def test_what_takes_elements_has_some(function: Callable[..., Any]) -> None:
    model = aotpack.compile(Function(function, 2), (X, SOME), target="cpu")
    for mask in (SOME, TWO):
        torch.testing.assert_close(tensors(model(X, mask)), tensors(function(X, mask)))
    with pytest.raises((RuntimeError, IndexError)):
        function(X, NONE)
    with pytest.raises(AssertionFailed, match="u0 = 0; accepted: sizes with|u0 0; accepted: 1 to"):
        model(X, NONE)


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(("function", "words"), FEW.values(), ids=FEW)
def test_parts_of_what_is_there(function: Callable[..., Any], words: str) -> None:
    model = aotpack.compile(Function(function, 2), (X, SOME), target="cpu")
    torch.testing.assert_close(tensors(model(X, SOME)), tensors(function(X, SOME)))
    with pytest.raises((RuntimeError, IndexError)):
        function(X, TWO)
    with pytest.raises(AssertionFailed, match=words):
        model(X, TWO)


def of_none(x: torch.Tensor, m: torch.Tensor) -> Any:
    """What eager answers."""
    y, some = x[m], x[m][:, :2]
    columns = y.max(1).values, y.mode(1).values, y.argmax(1), y.median(1).values
    picked = y.gather(0, torch.zeros_like(some, dtype=torch.int64)), y[y[:, 0].long() * 0]
    medians = y.median(), y.nanmedian(), y[:, 0].median()
    strided = y.as_strided((y.shape[0], 2), (4, 1), 2)
    return *columns, *picked, *medians, *torch.std_mean(y, 0), torch.var_mean(y)[1], strided


@pytest.mark.row("S:A13")
def test_answers_of_nothing() -> None:
    compiled = compile_all(Function(of_none, 2), (X, SOME))
    for mask in (SOME, NONE, TWO):
        agree(compiled, (X, mask))


class Largest(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x[mask].max(dim=0).values


@pytest.mark.row("S:A13")
def test_the_error_names_the_operator_and_the_line() -> None:
    for model in compile_all(Largest(), (X, SOME)).models.values():
        place = r"u0 >= 1\n  aten.max.dim at test_counted_demands.py:\d+: return x\[mask\].max"
        with pytest.raises(AssertionFailed, match=place):
            model(X, NONE)


@pytest.mark.row("S:A13")
def test_no_integers_have_no_median() -> None:
    """Eager converts NaN."""
    model = aotpack.compile(Function(lambda x, m: x[m].int().median(), 2), (X, SOME), target="cpu")
    assert model(X, TWO) == X[TWO].int().median()
    with pytest.raises(AssertionFailed, match="u0 = 0; accepted: sizes with u0 >= 1"):
        model(X, NONE)


class Guarded(nn.Module):
    """A branch that takes elements, and a loop in it; eager runs what is chosen."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
        def largest(y: torch.Tensor) -> torch.Tensor:
            zero = torch.zeros((), dtype=torch.int64)
            turn = lambda i, a: (i + 1, a + y.min(0).values)  # noqa: E731
            return while_loop(lambda i, a: i < 2, turn, (zero, y.max(0).values + 0))[1]

        return torch.cond(some, largest, lambda y: y.sum(0), (x[mask],))


@pytest.mark.row("S:A13")
def test_branches_that_run_have_what_they_take() -> None:
    given = (X, SOME, SOME.any())
    for model in compile_all(Guarded(), given).models.values():
        for mask in (SOME, NONE, TWO):
            wanted = Guarded()(X, mask, mask.any())
            torch.testing.assert_close(model(X, mask, mask.any()), wanted)
        with pytest.raises(AssertionFailed, match="sizes must have u0 >= 1\n  aten.max.dim at"):
            model(X, NONE, SOME.any())
        torch.testing.assert_close(model(*given), Guarded()(*given))


class Strides(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def first(y: torch.Tensor) -> torch.Tensor:
            return y.clone().as_strided((2, 4), (4, 1)).sum()

        return torch.cond(mask[0], first, lambda y: y.sum(), (x[mask],))


@pytest.mark.row("S:A13")
def test_strides_in_branches_are_refused() -> None:
    words = "strides have to stay inside of the tensor for all counts, and 4.u0 - 8 >= 0 need not"
    with pytest.raises(AotpackError, match=words):
        aotpack.compile(Strides(), (X, SOME), target="cpu")
