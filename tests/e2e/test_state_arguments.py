"""`with_state`: arguments that come back as results, such as caches, are state of the package."""

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


@pytest.mark.parametrize(
    ("methods", "names", "message"),
    [
        ({"one": Method(Notes(), (torch.ones(1, 4), empty()))}, ["cache"], "it has none"),
        (methods(Notes()), ["memory"], "'memory' is no keyword .* of 'several'; it has cache"),
        (methods(Notes()), [], "none is named"),
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
