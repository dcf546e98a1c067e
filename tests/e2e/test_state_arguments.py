"""`with_state`: arguments that come back as results, such as caches, are state of the package."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from transformers.cache_utils import Cache, DynamicCache, StaticLayer
from transformers.exporters.exporter_dynamo import register_pytree_node

import aotpack
from aotpack import Method
from aotpack.errors import TraceError, UsageError
from aotpack.runtime import AotpackError

LENGTH = 8


class Notes(nn.Module):
    """New rows behind those of a cache, and the sum of all."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)

    def forward(self, x: torch.Tensor, cache: dict[str, torch.Tensor]) -> dict[str, Any]:
        places = cache["count"] + torch.arange(x.shape[0])
        rows = cache["rows"].index_copy(0, places, x * self.scale)
        return {"total": rows.sum(0), "cache": {"rows": rows, "count": cache["count"] + x.shape[0]}}


def empty() -> dict[str, torch.Tensor]:
    return {"rows": torch.zeros(LENGTH, 4), "count": torch.tensor(0)}


def methods(module: nn.Module, **cache: torch.Tensor) -> dict[str, Method]:
    rows = Dim("rows", min=1, max=LENGTH)
    whole = {"cache": empty()}
    return {
        "several": Method(module, (torch.ones(3, 4),), whole, {"x": {0: rows}, "cache": None}),
        "one": Method(module, (torch.ones(1, 4),), {"cache": {**empty(), **cache}}),
    }


@pytest.fixture(scope="module")
def notes() -> Notes:
    return Notes()


@pytest.fixture(scope="module")
def made(notes: Notes) -> dict[str, Method]:
    return aotpack.with_state(methods(notes), "cache")


def told(loaded: Any, model: nn.Module, cache: dict[str, Any], *calls: tuple[str, int]) -> Any:
    """Both caches after some calls, which give the same."""
    for method, count in calls:
        x = torch.randn(count, 4)
        wanted = model(x, cache)
        found = getattr(loaded, method)(x)
        assert found.keys() == {"total"}
        torch.testing.assert_close(found["total"], wanted["total"])
        cache = wanted["cache"]
    return cache


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_what_a_method_returns_the_next_call_takes(notes, made, target):
    loaded = aotpack.compile(made, target=target)
    assert [*loaded.state] == ["cache_rows", "cache_count"]
    cache = told(loaded, notes, empty(), ("several", 3), ("one", 1), ("several", 2), ("one", 1))
    assert torch.equal(torch.from_dlpack(loaded.state["cache_rows"]), cache["rows"])
    assert int(loaded.state["cache_count"].numpy()) == 7
    assert [*notes.state_dict()] == ["scale"] and not hasattr(notes, "cache_rows")
    start = {"cache_rows": np.zeros((LENGTH, 4), np.float32), "cache_count": np.array(0)}
    loaded.bind_weights(start, strict=False)
    told(loaded, notes, empty(), ("one", 1), ("several", 5))


def test_callers_have_states_of_their_own_which_errors_keep(notes, made, tmp_path):
    one, other = (aotpack.compile(made, target="cpu") for _ in range(2))
    mine, yours = empty(), empty()
    for count in 1, 2, 1:
        mine = told(one, notes, mine, ("several", count), ("one", 1))
        with pytest.raises(
            AotpackError, match="argument 'x' makes rows_ 9 .*accepted: rows_ in 1 to 8"
        ):
            one.several(torch.ones(9, 4))
        with pytest.raises(AotpackError, match="argument 'cache' is no input of the package"):
            one.one(torch.ones(1, 4), cache=empty())
        yours = told(other, notes, yours, ("one", 1))
    assert (int(mine["count"]), int(yours["count"])) == (7, 3)


class Static(nn.Module):
    """A layer of a cache of transformers, as attention calls it."""

    def forward(self, x: torch.Tensor, past_key_values: Cache) -> dict[str, Any]:
        keys, values = past_key_values.update(x, x * 2, 0)
        return {"seen": keys * values, "past_key_values": past_key_values}


def test_a_program_with_a_cache_of_transformers():
    cache, x = Cache(layers=[StaticLayer(LENGTH)]), torch.ones(1, 1, 1, 4)
    register_pytree_node(Cache)
    cache.update(x, x, 0)
    program = torch.export.export(Static(), (), {"x": x, "past_key_values": cache})
    kwargs = program.example_inputs[1]
    (loaded,) = (
        aotpack.compile(
            aotpack.with_state({"step": Method(program, (), kwargs)}, name), target="cpu"
        )
        for name in ["past_key_values"]
    )
    names = {f"past_key_values_layers_0_{one}" for one in ("keys", "values", "cumulative_length")}
    assert {*loaded.state} == names
    loaded.bind_weights(
        {
            n: torch.zeros(one.shape, dtype=torch.int64 if "cum" in n else None)
            for n, one in loaded.state.items()
        },
        strict=False,
    )
    for count in 1, 2, 3:
        seen = loaded.step(x=x * count)["seen"]
        assert seen[0, 0, :, 0].tolist() == [2.0 * n * n if n <= count else 0 for n in range(1, 9)]


class Growing(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> dict[str, Any]:
        return {"cache": {"rows": torch.cat([cache["rows"], x])}}


class Unnamed(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> Any:
        return cache["rows"], x


class Listed(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> dict[str, Any]:
        return {"cache": [cache + x, x * 2]}


class Filled(nn.Module):
    """Gives back a tensor more than it takes."""

    def forward(self, x: torch.Tensor, cache: Any) -> dict[str, Any]:
        return {"total": sum(cache), "cache": [one + x for one in cache] + [x]}


def test_state_that_no_method_takes_begins_with_zeros():
    start = [torch.ones(3), torch.zeros(3)]
    made = aotpack.with_state(
        {"add": Method(Filled(), (torch.ones(3),), {"cache": start})}, "cache"
    )
    loaded = aotpack.compile(made, target="cpu")
    assert [loaded.add(torch.ones(3))["total"].tolist() for _ in range(2)] == [[1] * 3, [3] * 3]
    assert loaded.state["cache_2"].numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("methods", "names", "message"),
    [
        ({"one": Method(Notes(), (torch.ones(1, 4), empty()))}, ["cache"], "it has none"),
        (methods(Notes()), ["memory"], "'memory' is no keyword .* of 'several'; it has cache"),
        (methods(Notes()), [], "none is named"),
        (methods(Notes()), [["cache"]], r"\['cache'\] is no name; with_state"),
        ([1], ["cache"], "a list is given; a dict of aotpack.Method by name is accepted"),
        (Notes(), ["cache"], "Notes is given; a dict of aotpack.Method"),
        ({"one": Notes()}, ["cache"], "Notes is given; a dict of aotpack.Method"),
        (
            {"one": Method(Notes(), (torch.ones(1, 4),), {"cache": {"rows": torch.ones(8, 4)}})},
            ["cache"],
            "'one' fails on its example: KeyError: 'count'",
        ),
        (
            {"one": Method(Listed(), (torch.ones(4),), {"cache": torch.ones(4)})},
            ["cache"],
            "no method gives back cache, and none takes cache_0, cache_1: a result has",
        ),
        (
            methods(Notes(), rows=torch.ones(9, 4)),
            ["cache"],
            r"rows is float32\[8, 4\], and .*9, 4",
        ),
        (
            methods(Growing()),
            ["cache"],
            r"rows is float32\[8, 4\], and float32\[11, 4\] in .*grows",
        ),
        (methods(Unnamed()), ["cache"], "the result of 'several' has no names; it is a dict"),
        ({"one": Method(torch.add, (), {"cache": empty()})}, ["cache"], "a method is a builtin"),
    ],
)
def test_what_cannot_be_state_is_refused(methods, names, message):
    with pytest.raises(UsageError, match=message):
        aotpack.with_state(methods, *names)


def test_a_cache_that_grows_is_refused_with_what_to_do():
    cache, x = DynamicCache(), torch.ones(1, 1, 1, 4)
    register_pytree_node(DynamicCache)
    cache.update(x, x, 0)
    method = Method(Static(), (), {"x": x, "past_key_values": cache})
    with pytest.raises(TraceError, match="DynamicCache, which grows; .* make a StaticCache once"):
        aotpack.with_state({"step": method}, "past_key_values")


class Step(nn.Module):
    """A function of an input and of state."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, st: Any) -> dict[str, Any]:
        self.calls.add_(1)
        result: dict[str, Any] = self.function(x, st)
        return {**result, "calls": self.calls * 1}


def added(x: torch.Tensor, st: dict[str, torch.Tensor]) -> dict[str, Any]:
    st["a"].add_(x)
    return {"y": st["a"], "st": st}


def twice(x: torch.Tensor, st: dict[str, torch.Tensor]) -> dict[str, Any]:
    new = st["a"] + x
    return {"y": new, "st": {"a": new, "b": new}}


def new(a: Any, b: Any, **results: Any) -> dict[str, Any]:
    return {**results, "st": {"a": a, "b": b}}


STEPS = {
    "the old state": lambda x, st: new(st["a"] + x, st["b"] + 1, y=st["a"]),
    "a view of the old state": lambda x, st: new(st["a"] + x, st["b"], y=st["a"][:1, None]),
    "state inside of a result": lambda x, st: new(st["a"] + x, st["b"] + x, y=({"b": st["b"]},)),
    "a delay": lambda x, st: new(x, st["a"], y=st["b"] * 10 + x),
    "a delay of a view": lambda x, st: new(x * 1, st["a"][:], y=st["b"] * 10 + x),
    "a swap": lambda x, st: new(st["b"], st["a"], y=st["a"] * 2 + x),
    "a transposed tensor": lambda x, st: new(st["a"].T, st["b"] + x, y=st["a"] + x),
    "in place": added,
    "one tensor twice": twice,
    "the input": lambda x, st: new(x, st["b"] + x, y=x, z=st["a"]),
}


@pytest.mark.parametrize(
    ("step", "strict"), [*((step, False) for step in STEPS), ("a delay of a view", True)]
)
def test_results_are_read_before_state_is_written(step, strict):
    model, x = Step(STEPS[step]), torch.arange(4.0).reshape(2, 2)
    start = {"a": x + 5, "b": x * 3}
    made = aotpack.with_state({"go": Method(model, (x,), {"st": start})}, "st")
    assert model.calls == 0, "the user's module is as it was"
    loaded = aotpack.compile(made, target="interpreter", strict=strict)
    state = {name: tensor.clone() for name, tensor in start.items()}
    for n in range(3):
        wanted = model(x + n, state)
        state = wanted.pop("st")
        wanted, state = copy.deepcopy((wanted, state))
        torch.testing.assert_close(dict(loaded.go(x + n)), wanted)
    assert "st_a" in loaded.state
    for name, view in loaded.state.items():
        wanted = model.calls if name == "calls" else state[name.removeprefix("st_")]
        torch.testing.assert_close(torch.from_dlpack(view), wanted)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("st_a", torch.ones(2))

    def forward(self, x: torch.Tensor, st: Any) -> dict[str, Any]:
        return {"y": self.st_a + x, "st": {"a": st["a"] + x}}


def of(function: Any, st: Any) -> dict[str, Method]:
    return {"go": Method(Step(function), (torch.ones(2),), {"st": st})}


TWO = torch.zeros(2)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            of(lambda x, st: {"st": st}, {"a": {"b": TWO}, "a_b": TWO}),
            "two places would both be called 'st_a_b'; rename the keys",
        ),
        (
            {"go": Method(Own(), (torch.ones(2),), {"st": {"a": TWO}})},
            "tensor of 'go' would be called 'st_a', but the model has that itself; rename",
        ),
        (of(lambda x, st: {"st": st}, {"a.b": TWO}), r"called 'st_a\.b', but that is no name"),
        (
            of(lambda x, st: {"st": {"n": st["n"] + 1, "a": st["a"] + x}}, {"n": 1, "a": TWO}),
            r"st_n is 1, and comes back as 2 from 'go'.*make it one, torch\.tensor\(1\)",
        ),
        (
            of(lambda x, st: {"st": {"a": 0.5}}, {"a": TWO}),
            "st_a is a tensor, and comes back as 0.5",
        ),
    ],
)
def test_state_that_would_be_mixed_up_is_refused(methods, message):
    with pytest.raises(UsageError, match=message):
        aotpack.with_state(methods, "st")


def test_a_number_that_stays_is_fixed():
    step = of(
        lambda x, st: {"y": x * st["n"], "st": {"n": 3, "a": st["a"] + x}}, {"n": 3, "a": TWO}
    )
    loaded = aotpack.compile(aotpack.with_state(step, "st"), target="interpreter")
    assert loaded.go(torch.ones(2))["y"].tolist() == [3.0, 3.0]
    assert [*loaded.state] == ["calls", "st_a"]


SHARED = {
    "a delay": lambda x, st: new(x * 1, st["a"], y=st["b"] * 1),
    "a swap": lambda x, st: new(st["b"], st["a"] + x, y=st["a"] * 10 + st["b"]),
    "the input": lambda x, st: new(x, st["b"] + x, y=st["a"] + st["b"]),
}


@pytest.mark.parametrize("step", SHARED.values(), ids=SHARED)
def test_state_whose_examples_share_memory_is_apart(step):
    model, zeros = Step(step), torch.zeros(2)
    method = Method(model, (zeros,), {"st": {"a": zeros, "b": zeros}})
    loaded = aotpack.compile(aotpack.with_state({"go": method}, "st"), target="interpreter")
    state = {"a": torch.zeros(2), "b": torch.zeros(2)}
    for n in range(4):
        x = torch.full((2,), n + 1.0)
        wanted = model(x, state)
        state = wanted["st"]
        torch.testing.assert_close(loaded.go(x)["y"], wanted["y"])


def test_conjugated_state_is_new():
    step = Step(lambda x, st: {"y": st["a"] * x, "st": {"a": st["a"].conj()}})
    method = Method(step, (torch.ones(1),), {"st": {"a": torch.tensor([1 + 2j])}})
    loaded = aotpack.compile(aotpack.with_state({"go": method}, "st"), target="interpreter")
    assert [loaded.go(torch.ones(1))["y"].item() for _ in range(3)] == [1 + 2j, 1 - 2j, 1 + 2j]


class Lengths(nn.Module):
    def forward(self, x: torch.Tensor, z: torch.Tensor, st: Any) -> dict[str, Any]:
        total = x.sum(0) + st["a"]
        return {"y": total + z.sum(), "st": {"a": total}}


@pytest.mark.parametrize(("length", "positional"), [("2 * n", 0), ("n + 1", 1), ("2 * n + 1", 2)])
def test_lengths_that_a_program_allows_stay_dynamic(length, positional):
    def given(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = {"x": torch.ones(n, 2), "z": torch.ones(eval(length, {"n": n}))}
        names = [*values]
        args = tuple(values[name] for name in names[:positional])
        return args, {name: values[name] for name in names[positional:]}

    dim, (args, kwargs) = Dim("n", min=2, max=8), given(3)
    program = torch.export.export(
        Lengths(),
        args,
        {**kwargs, "st": {"a": torch.zeros(2)}},
        dynamic_shapes={"x": {0: dim}, "z": {0: eval(length, {"n": dim})}, "st": {"a": None}},
    )
    method = Method(program, *program.example_inputs)
    loaded = aotpack.compile(aotpack.with_state({"go": method}, "st"), target="interpreter")
    total = 0
    for n in 3, 8, 2:
        args, kwargs = given(n)
        total += n
        assert loaded.go(*args, **kwargs)["y"].tolist() == [total + eval(length, {"n": n})] * 2


def test_a_size_that_no_dimension_can_be_declared_as_is_refused():
    class Square(nn.Module):
        def forward(self, x: torch.Tensor, st: Any) -> dict[str, Any]:
            return {"y": x.sum(), "st": {"a": st["a"] + x.sum()}}

    dim = Dim("n", min=2, max=8)
    program = torch.export.export(
        Square(),
        (),
        {"x": torch.ones(3), "st": {"a": torch.zeros(())}},
        dynamic_shapes={"x": {0: dim}, "st": {"a": None}},
    )
    (node,) = [one for one in program.graph.find_nodes(op="placeholder") if one.name == "x"]
    size = node.meta["val"].shape[0]
    node.meta["val"] = node.meta["val"].new_empty((size * size,))
    with pytest.raises(UsageError, match=r"an input of the size s\d+\*\*2; sizes n and a \* n"):
        aotpack.with_state({"go": Method(program, (), program.example_inputs[1])}, "st")
