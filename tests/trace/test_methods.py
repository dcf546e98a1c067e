"""Several methods of a package: what they share, what they name, what is refused."""

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError, UnsupportedError, UsageError
from aotpack.ir.dtypes import DType
from aotpack.stages import Traced
from aotpack.trace import Method, TraceOptions, check_methods, trace_methods

OPTIONS = TraceOptions("llm", "1")
X = torch.randn(2, 4)


class Cached(nn.Module):
    """Two entries over one weight and one state."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("k", torch.zeros(2, 4))

    def prefill(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        self.k.copy_(self.proj(x) * scale)
        return self.k + 1

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        self.k.add_(self.proj(x))
        return self.k * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.prefill(x, scale=torch.ones(()))


class Tower(nn.Module):
    def __init__(self, proj: nn.Module | None = None) -> None:
        super().__init__()
        self.proj = proj or nn.Linear(4, 4)
        self.register_buffer("k", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k.add_(self.proj(x))
        return self.k * 2


def names(traced: Traced) -> list[str]:
    return [weight.name for weight in traced.graph.weights]


@pytest.mark.parametrize("strict", [False, True])
def test_methods_of_a_module_share_its_tensors(strict):
    model = Cached()
    scale = {"scale": torch.tensor(2.0)}
    given = {"prefill": Method(model.prefill, (X,), scale), "decode": Method(model.decode, (X,))}
    made = trace_methods(given, TraceOptions("llm", "1", strict=strict))
    for one in made.values():
        assert sorted(names(one)) == ["k", "proj.bias", "proj.weight"]
        assert one.graph.signature.updates == ("k",)
        assert [name for name, *_ in one.golden.updates] == ["k"]
    prefill = made["prefill"].graph
    assert (prefill.signature.name, prefill.signature.positional) == ("llm.prefill", ("x",))
    assert "test_methods.py" in str(prefill.nodes[-1].source)
    assert torch.equal(model.k, torch.zeros(2, 4)) and model.training


def test_equal_names_of_different_tensors_share_nothing():
    made = trace_methods({"text": Method(Tower(), (X,)), "image": Method(Tower(), (X,))}, OPTIONS)
    assert sorted(names(made["text"])) == ["text.k", "text.proj.bias", "text.proj.weight"]
    assert sorted(names(made["image"])) == ["image.k", "image.proj.bias", "image.proj.weight"]
    assert made["image"].graph.signature.updates == ("image.k",)
    assert [name for name, *_ in made["image"].golden.updates] == ["image.k"]


def test_one_tensor_under_two_names_has_both():
    first = Tower()
    second = nn.Sequential(first.proj)
    made = trace_methods({"a": Method(first, (X,)), "b": Method(second, (X,))}, OPTIONS)
    assert names(made["b"]) == ["proj.weight", "proj.bias"]
    weight = made["b"].graph.weights[0]
    assert weight.names == ("proj.weight", "0.weight")
    assert weight in made["a"].graph.weights


def test_tensors_that_no_module_owns_are_one_where_they_are_one():
    table = torch.arange(8.0).reshape(2, 4)

    class Reader(nn.Module):
        def __init__(self, own: torch.Tensor) -> None:
            super().__init__()
            self.own = [own]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.own[0]

    given = {"a": table, "b": table, "equal": table.clone(), "other": table + 1}
    made = trace_methods({n: Method(Reader(one), (X,)) for n, one in given.items()}, OPTIONS)
    found = {method: names(one) for method, one in made.items()}
    assert found["a"] == found["b"] == found["equal"] != found["other"]


def test_a_module_may_be_given_twice():
    model = Tower()
    made = trace_methods({"few": Method(model, (X,)), "same": Method(model, (X,))}, OPTIONS)
    assert names(made["few"]) == names(made["same"])
    assert made["same"].graph.signature.unused == ()


def test_casts_keep_what_is_shared():
    model = Cached()
    given = {"full": Method(model, (X,)), "decode": Method(model.decode, (X,))}
    options = TraceOptions("llm", "1", dtype=DType.BFLOAT16)
    made = trace_methods(given, options)
    assert sorted(names(made["full"])) == sorted(names(made["decode"]))


def test_two_views_of_one_state_are_refused():
    memory = torch.zeros(4, 4)

    class Half(nn.Module):
        def __init__(self, k: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer("k", k)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.k.add_(1)
            return self.k[:2] + x

    given = {"whole": Method(Half(memory), (X,)), "half": Method(Half(memory[:2]), (X,))}
    with pytest.raises(UnsupportedError, match="k of whole and k of half are different views"):
        trace_methods(given, OPTIONS)


def test_what_is_no_module_is_refused():
    with pytest.raises(TraceError, match="llm.a: the model is a function; a torch.nn.Module, a me"):
        trace_methods({"a": Method(lambda x: x, (X,))}, OPTIONS)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "there are no methods"),
        ({"a b": Method(Tower(), (X,))}, "'a b' is no name that Python accepts"),
        ({"state": Method(Tower(), (X,))}, "no method can be called 'state'"),
        ({"_x": Method(Tower(), (X,))}, "no method can be called '_x'"),
        ({"a": Tower()}, "the method 'a' is a Tower; aotpack.Method"),
    ],
)
def test_names_and_kinds_are_refused(given, told):
    with pytest.raises(UsageError, match=told):
        check_methods("llm", given)


def compute(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvals(x).real


class Assigned(nn.Module):
    forward = compute


class WithPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Assigned()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


@pytest.mark.parametrize("kind", [Assigned, WithPart])
def test_lines_of_a_forward_of_another_name(kind: type[nn.Module]) -> None:
    model = kind()
    traced = trace_methods({"": Method(model, (X[:, :2],))}, OPTIONS)[""]
    line = "return torch.linalg.eigvals(x).real"
    found = {str(node.source).partition(": ")[2] for node in traced.graph.nodes}
    assert found == {line}
    assert not any("forward" in vars(part) for part in model.modules())  # the user's stays
    assert compute.__code__.co_name == "compute"


def test_a_lazy_module_is_called_before_it_is_packaged():
    model = nn.Sequential(nn.LazyLinear(4), nn.BatchNorm1d(4)).eval()
    for function in (model, model.forward):
        with pytest.raises(TraceError, match="0.weight, 0.bias of a lazy .* call the model once"):
            trace_methods({"forward": Method(function, (X,))}, OPTIONS)
    model(X)
    assert "0.weight" in names(trace_methods({"forward": Method(model, (X,))}, OPTIONS)["forward"])


class Unfinished(nn.Module):
    def __init__(self) -> None:
        self.factor = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def test_a_module_that_torch_has_not_prepared_is_refused() -> None:
    with pytest.raises(TraceError, match=r"call super\(\).__init__\(\) first in Unfinished"):
        trace_methods({"": Method(Unfinished(), (X,))}, OPTIONS)
