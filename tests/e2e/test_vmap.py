"""``torch.vmap``: numbers beside members, and random numbers of each member."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim
from torch.func import vmap

import aotpack

from .models import Function

N = Dim("n", min=2, max=20)
NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda r: r.sum() * 2,
    "element": lambda r: r[1] * 2,
    "unbound": lambda r: sum(r.unbind()),  # type: ignore[arg-type,return-value]
    "mean": lambda r: r.mean() * 2.5 + 1,
    "quotient": lambda r: r.sum() / 3,
    "maximum": lambda r: 1 - r.max(),
}
CASES = [
    (name, dtype)
    for name in NUMBERS
    for dtype in (torch.float32, torch.bfloat16, torch.int64)
    if (name, dtype) != ("mean", torch.int64)
]
RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda r: F.dropout(r, 0.5, True),
    "rand": lambda r: torch.rand(8),
    "rand_like": lambda r: torch.rand_like(r),
    "randn": lambda r: torch.randn(8, dtype=torch.complex64).real,
    "uniform_": lambda r: r.clone().uniform_(),
    "randint": lambda r: torch.randint(0, 100, (8,)).float(),
    "multinomial": lambda r: torch.multinomial(r, 32).float(),
    "bernoulli": lambda r: torch.bernoulli(r * 0.5),
    "randperm": lambda r: torch.randperm(32).float(),
}
CASTS: dict[str, Callable[[Tensor], Tensor]] = {
    "to": lambda r: (r * 2).to(torch.float64) + r.amax(),
    "double": lambda r: (r > 1).double().cumsum(0),
    "type": lambda r: r.long().type(torch.float32) * r,
}


def packaged(function: Callable[[Tensor], Tensor], x: Tensor, is_dynamic: bool) -> Any:
    shapes = ({0: N},) if is_dynamic else None
    return aotpack.compile(Function(function, 1), (x,), target="interpreter", dynamic_shapes=shapes)


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_numbers_beside_members(name: str, dtype: torch.dtype, is_dynamic: bool) -> None:
    function = vmap(NUMBERS[name])
    x = (torch.rand(6, 8) * 5).to(dtype)
    model = packaged(function, x, is_dynamic)
    for given in (x, x[:3] + 1) if is_dynamic else (x, x + 1):
        torch.testing.assert_close(model(given), function(given))


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("one", RANDOM.values(), ids=RANDOM)
def test_members_draw_numbers_of_their_own(
    one: Callable[[Tensor], Tensor], is_dynamic: bool
) -> None:
    x = torch.ones(6, 32)
    model = packaged(vmap(one, randomness="different"), x, is_dynamic)
    for rows in (2, 19) if is_dynamic else (6,):
        x = torch.ones(rows, 32)
        found = model(x, seed=1)
        assert found.unique(dim=0).shape[0] == rows
        assert torch.equal(model(x, seed=1), found) and not torch.equal(model(x, seed=2), found)


@pytest.mark.parametrize("one", CASTS.values(), ids=CASTS)
def test_members_of_dynamic_sizes_are_converted(one: Callable[[Tensor], Tensor]) -> None:
    function, shapes = vmap(one), ({0: N, 1: Dim("m", min=1, max=40)},)
    given = {"target": "interpreter", "dynamic_shapes": shapes}
    model = aotpack.compile(Function(function, 1), (torch.rand(6, 32) * 5,), **given)
    for sizes in (6, 32), (2, 1), (19, 7):
        x = torch.rand(sizes) * 5
        torch.testing.assert_close(model(x), function(x))


@pytest.mark.parametrize("name", ["dropout", "rand_like", "bernoulli", "permuted"])
def test_members_of_dynamic_sizes_draw_numbers(name: str) -> None:
    one = RANDOM.get(name, lambda r: r[torch.randperm(r.shape[0])])
    function, shapes = vmap(one, randomness="different"), ({1: N},)
    given = {"target": "interpreter", "dynamic_shapes": shapes}
    model = aotpack.compile(Function(function, 1), (torch.ones(6, 8),), **given)
    x = torch.arange(120.0).reshape(6, 20) if name == "permuted" else torch.full((6, 20), 0.5)
    found = model(x, seed=1)
    assert found.shape == x.shape and found.sub(x).unique(dim=0).shape[0] == 6
    assert torch.equal(model(x, seed=1), found) and not torch.equal(model(x, seed=2), found)
    if name == "permuted":
        assert torch.equal(found.sort(1).values, x)


def test_members_draw_the_same_numbers() -> None:
    x = torch.ones(6, 32)
    model = packaged(vmap(RANDOM["rand_like"], randomness="same"), x, False)
    assert model(x, seed=1).unique(dim=0).shape[0] == 1


@pytest.mark.parametrize(("inner", "count"), [("same", 6), ("different", 192)])
def test_members_of_members(inner: str, count: int) -> None:
    def rows(row: Tensor) -> Tensor:
        return vmap(lambda x: torch.rand(3) + x, randomness=inner)(row)

    x = torch.ones(6, 32)
    model = packaged(vmap(rows, randomness="different"), x, False)
    assert model(x, seed=1).reshape(192, 3).unique(dim=0).shape[0] == count
