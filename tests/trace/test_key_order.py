"""Dicts whose keys come in another order than the example's: right, or refused in words."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.errors import AotpackError
from tests.e2e.models import Function

ZERO, ONE = torch.zeros(2), torch.ones(2)


def joined(d: dict[str, Tensor]) -> Tensor:
    return torch.cat([*d.values()])


def second(d: dict[str, Tensor]) -> Tensor:
    return [*d.values()][1] * 2


def named(d: dict[str, Tensor]) -> Tensor:
    return sum(d[key] * number for number, key in enumerate(sorted(d)))  # type: ignore[return-value]


def summed(d: dict[str, Tensor]) -> Tensor:
    return sum(d.values())  # type: ignore[return-value]


def checked(d: dict[str, Tensor]) -> Tensor:
    if next(iter(d)) != "a":
        raise ValueError("a comes first")
    return d["a"] + 1


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("forward", [joined, second, checked])
def test_results_that_follow_the_order(forward: Callable[..., Tensor], kind: Any) -> None:
    given = kind(a=ZERO, b=ZERO.clone(), c=ZERO.clone())  # which tell nothing apart
    model = aotpack.compile(Function(forward, 1), (given,), target="interpreter")
    given = kind(a=ZERO, b=ONE, c=2 * ONE)
    torch.testing.assert_close(model(given), forward(given))
    other = kind(c=2 * ONE, a=ZERO, b=ONE)
    with pytest.raises(AotpackError, match="in the order 'c', 'a', 'b', which .*: 'a', 'b', 'c'"):
        model(other)


@pytest.mark.parametrize("forward", [named, summed])
def test_results_that_do_not(forward: Callable[..., Tensor]) -> None:
    model = aotpack.compile(Function(forward, 1), ({"a": ZERO, "b": ONE},), target="interpreter")
    for given in ({"b": ONE, "a": 3 * ONE}, {"a": ONE, "b": ZERO}):
        torch.testing.assert_close(model(given), forward(given))


def doubled(d: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: one * 2 for key, one in d.items()}


def test_results_by_key_have_no_order() -> None:
    model = aotpack.compile(Function(doubled, 1), ({"a": ZERO, "b": ONE},), target="interpreter")
    found = model({"b": ONE, "a": 3 * ONE})
    assert found["a"].tolist() == [6.0, 6.0] and found["b"].tolist() == [2.0, 2.0]


def test_a_program_finds_inputs_by_key() -> None:
    function = Function(lambda d: d["a"] * 2 + d["b"], 1)
    program = torch.export.export(function, ({"a": ZERO, "b": ONE},))
    model = aotpack.compile(program, target="interpreter")
    given = {"b": ONE, "a": 3 * ONE}
    assert torch.equal(model(given), program.module()(given))


class Named(NamedTuple):
    d: dict[str, Tensor]
    z: Tensor


def test_dicts_inside_of_named_tuples() -> None:
    function = Function(lambda n: joined(n.d) + n.z, 1)
    given = Named({"a": ZERO, "b": ONE}, ONE[:1])
    model = aotpack.compile(function, (given,), target="interpreter")
    torch.testing.assert_close(model(given), function(given))
    with pytest.raises(AotpackError, match="in the order 'b', 'a', which results follow"):
        model(Named({"b": ONE, "a": ZERO}, ONE[:1]))


def test_dicts_inside_of_others() -> None:
    given = [{"x": ONE, "y": {"q": ZERO, "p": 3 * ONE}}]
    model = aotpack.compile(
        Function(lambda g: joined(g[0]["y"]), 1), (given,), target="interpreter"
    )
    torch.testing.assert_close(model(given), joined(given[0]["y"]))  # type: ignore[arg-type]
    with pytest.raises(AotpackError, match=r"\[0\]\['y'\]\" has its keys in the order 'p', 'q'"):
        model([{"x": ONE, "y": {"p": ZERO, "q": 3 * ONE}}])


def test_each_dict_has_an_order_of_its_own() -> None:
    def follows_one(features: dict[str, Tensor], masks: dict[str, Tensor]) -> Tensor:
        return joined(features) * masks["x"].sum() + masks["y"].sum()

    features, masks = {"a": ZERO, "b": ONE}, {"x": ONE, "y": ZERO}
    model = aotpack.compile(Function(follows_one, 2), (features, masks), target="interpreter")
    turned = {"y": 2 * ONE, "x": 3 * ONE}
    torch.testing.assert_close(model(features, turned), follows_one(features, turned))
    with pytest.raises(AotpackError, match="in the order 'b', 'a', which results follow"):
        model({"b": ONE, "a": ZERO}, turned)


@pytest.mark.parametrize("turns", [(True, False), (False, True)])
def test_an_order_that_only_two_dicts_together_show(turns: tuple[bool, bool]) -> None:
    def follows_both(a: dict[str, Tensor], b: dict[str, Tensor]) -> Tensor:
        return joined(a) if next(iter(a)) == "q" and next(iter(b)) == "y" else a["p"].repeat(2)

    given = {"p": ZERO, "q": ONE}, {"x": ONE, "y": ZERO}
    model = aotpack.compile(Function(follows_both, 2), given, target="interpreter")
    a, b = (dict([*d.items()][::-1]) if t else d for d, t in zip(given, turns, strict=True))
    with pytest.raises(AotpackError, match="has its keys in the order"):
        model(a, b)


def test_an_order_that_two_of_three_dicts_together_show() -> None:
    def follows_all(a: dict[str, Tensor], b: dict[str, Tensor], c: dict[str, Tensor]) -> Tensor:
        both = joined(a) if next(iter(a)) == "q" and next(iter(b)) == "y" else a["p"].repeat(2)
        return torch.cat([both, joined(c)])

    given = {"p": ZERO, "q": ONE}, {"x": ONE, "y": ZERO}, {"r": ONE, "s": ZERO}
    model = aotpack.compile(Function(follows_all, 3), given, target="interpreter")
    torch.testing.assert_close(model(*given), follows_all(*given))
    a, b = (dict([*d.items()][::-1]) for d in given[:2])
    with pytest.raises(AotpackError, match="has its keys in the order"):
        model(a, b, given[2])


class Keywords(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, scale: Tensor, **named: Tensor) -> Tensor:
        return self.function(named) * scale


def test_further_keywords() -> None:
    given = {"scale": ONE.sum(), "b": ONE, "a": ZERO}
    model = aotpack.compile(Keywords(joined), (), given, target="interpreter")
    torch.testing.assert_close(model(**given), Keywords(joined)(**given))
    torch.testing.assert_close(model(given["scale"], b=ONE, a=ZERO), model(**given))
    torch.testing.assert_close(model(b=ONE, scale=ONE.sum(), a=ZERO), model(**given))
    with pytest.raises(AotpackError, match="what is given by name has its keys in the order"):
        model(given["scale"], a=ZERO, b=ONE)
    free = aotpack.compile(Keywords(named), (), given, target="interpreter")
    torch.testing.assert_close(free(a=ZERO, b=ONE, scale=ONE.sum()), free(**given))


def test_parameters_have_no_order() -> None:
    function = Function(lambda x, y: torch.cat([x, y]), 2)
    model = aotpack.compile(function, (ZERO, ONE), target="interpreter")
    assert not model.signature.kwargs.in_order
    drawn = aotpack.compile(
        Function(lambda d: torch.rand(2) + d["a"] + d["b"], 1),
        ({"a": ZERO, "b": ONE},),
        target="interpreter",
    )
    first, second = {"b": ONE, "a": ZERO}, {"a": ZERO, "b": ONE}
    assert torch.equal(drawn(first, seed=0), drawn(second, seed=0))
