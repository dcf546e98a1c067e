"""Weights leave as bytes: only the used ones, tied ones once, without a copy."""

import numpy as np
import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import TraceError
from aotpack.ir.dtypes import DType
from aotpack.runtime.errors import WeightError

X = torch.randn(2, 4)


def test_bytes_share_memory(trace_function):
    layer = nn.Linear(4, 4)
    weight, bias = trace_function(lambda self, x: self.a(x), X, modules={"a": layer}).graph.weights
    assert (weight.name, weight.shape, weight.dtype) == (
        "a.weight",
        (4, 4),
        DType.FLOAT32,
    )
    assert weight.data.nbytes == 64 and weight.data.itemsize == 1 and weight.data.c_contiguous
    before = bytes(bias.data)
    with torch.no_grad():
        layer.bias.add_(1)
    assert bytes(bias.data) != before


def test_transposed_storage_is_row_major(trace_function):
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(torch.arange(12.0).view(4, 3).t())
    graph = trace_function(lambda self, x: self.a(x), X, modules={"a": layer}).graph
    values = torch.frombuffer(graph.weights[0].data, dtype=torch.float32)
    assert torch.equal(values, layer.weight.detach().reshape(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64])
def test_buffers(trace_function, dtype):
    child = nn.Module()
    child.register_buffer("table", torch.ones(4, dtype=dtype), persistent=False)
    graph = trace_function(lambda self, x: x * self.a.table, X, modules={"a": child}).graph
    (weight,) = graph.weights
    assert (weight.name, str(weight.dtype)) == (
        "a.table",
        str(dtype).removeprefix("torch."),
    )
    assert weight.data.nbytes == 4 * dtype.itemsize


def test_tied(trace_function):
    a, b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    b.weight = a.weight
    graph = trace_function(lambda self, x: self.b(self.a(x)), X, modules={"a": a, "b": b}).graph
    assert [weight.names for weight in graph.weights] == [("a.weight", "b.weight")]


def test_unused_are_left_out(trace_function):
    modules = {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)}
    graph = trace_function(lambda self, x: (self.a(x), self.b(x))[0], X, modules=modules).graph
    assert [weight.name for weight in graph.weights] == ["a.weight", "a.bias"]
    assert graph.signature.unused == ("b.weight", "b.bias")


def test_tied_names_and_what_no_checkpoint_has_are_not_unused(trace_function):
    a, b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    b.weight = a.weight
    b.register_buffer("table", torch.ones(4), persistent=False)
    graph = trace_function(lambda self, x: self.a(x), X, modules={"a": a, "b": b}).graph
    assert [weight.names for weight in graph.weights] == [("a.weight", "b.weight")]
    assert graph.signature.unused == ()


def test_constant_tensor(trace_function):
    graph = trace_function(lambda self, x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), X).graph
    assert [(w.name, w.shape) for w in graph.weights] == [("lifted_tensor_0", (4,))]


def test_complex_weights_are_pairs(trace_function):
    child = nn.Module()
    child.register_buffer("table", torch.complex(torch.ones(4), torch.zeros(4)).conj())
    graph = trace_function(
        lambda self, x: x + torch.view_as_real(self.a.table * 2).sum(),
        X,
        modules={"a": child},
    ).graph
    (weight,) = graph.weights
    assert (weight.name, weight.dtype, weight.shape) == ("a.table", DType.FLOAT32, (4, 2))
    assert np.frombuffer(weight.data, np.float32).tolist() == [1.0, -0.0] * 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("runs_first", [False, True])
def test_a_weight_that_the_module_computed_is_copied(runs_first):
    """``nn.utils.weight_norm`` keeps the weight of the last call, with its gradient function."""
    module = nn.utils.weight_norm(nn.Linear(5, 3)).eval()
    x = torch.randn(2, 5)
    if runs_first:
        with torch.no_grad():
            module(x)
    model = aotpack.compile(module, (x,), target="interpreter")
    torch.testing.assert_close(model(2 * x), module(2 * x))


def test_gradients_in_a_model_are_refused_in_words():
    def energy(x):
        return (x.sin() ** 2).sum()

    class Force(nn.Module):
        def forward(self, x):
            return torch.func.grad(energy)(x)

    with pytest.raises(TraceError, match=r"is a tensor of a transformation, such as torch.func"):
        aotpack.compile(Force(), (torch.randn(3),), target="interpreter")


def test_memory_taken_by_data_in_strict_mode_is_refused_in_words():
    class Shifted(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            self.weight.data.add_(1)
            return y

    x = torch.randn(2, 4)
    module = Shifted(4, 4)
    model = aotpack.compile(module, (x,), target="interpreter")
    for _ in range(2):
        torch.testing.assert_close(model(x), module(x))
    with pytest.raises(TraceError, match=r"has no data.*by \.data\..*leave out strict"):
        aotpack.compile(Shifted(4, 4), (x,), target="interpreter", strict=True)


class Views(nn.Module):
    """A buffer that is rows of a weight."""

    def __init__(self, part: torch.Tensor, weight: torch.Tensor, persistent: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.register_buffer("part", part, persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight.sum() + self.part.sum()


PARTS = [lambda w: w[1:3], lambda w: w.t(), lambda w: w[0], lambda w: w[::2], torch.diagonal]


@pytest.mark.parametrize("part", PARTS)
def test_weights_in_one_memory_are_given_together(part):
    whole = torch.rand(6, 4)
    model = Views(part(whole), whole, True)
    package = aotpack.compile(model, (X,), target="interpreter")
    torch.testing.assert_close(package(X), model(X))
    new = torch.rand(6, 4)
    for given in ({"weight": new}, {"part": part(new)}):
        with pytest.raises(WeightError, match="shares memory with (weight|part) in the model, and"):
            package.bind_weights(given, strict=False)
    torch.testing.assert_close(package(X), model(X))
    package.bind_weights({"weight": new, "part": part(new)})
    model.load_state_dict({"weight": new, "part": part(new)})
    torch.testing.assert_close(package(X), model(X))


@pytest.mark.parametrize("part", PARTS)
def test_a_view_that_no_state_dict_has_follows_its_weight(part):
    whole = torch.rand(6, 4)
    model = Views(part(whole), whole, False)
    package = aotpack.compile(model, (X,), target="interpreter")
    package.bind_weights({"weight": torch.arange(24.0).view(6, 4)})
    model.load_state_dict({"weight": torch.arange(24.0).view(6, 4)})
    torch.testing.assert_close(package(X), model(X))


@pytest.mark.parametrize("part", PARTS)
def test_a_view_follows_its_weight_in_another_type(part):
    whole = torch.rand(6, 4)
    model = Views(part(whole), whole, False)
    package = aotpack.compile(model, (X,), target="interpreter", dtype="bfloat16")
    package.bind_weights({"weight": torch.zeros(6, 4, dtype=torch.bfloat16)})
    assert torch.equal(package(X.bfloat16()), X.bfloat16())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("persistent", [True, False])
def test_views_that_another_method_reads(part, persistent):
    class TwoMethods(Views):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.weight.sum()

        def other(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.part.sum()

    whole, new = torch.rand(6, 4), torch.rand(6, 4)
    model = TwoMethods(part(whole), whole, persistent)
    methods = {"whole": aotpack.Method(model, (X,)), "part": aotpack.Method(model.other, (X,))}
    package = aotpack.compile(methods, target="interpreter")
    if persistent:
        for given in ({"weight": new}, {"part": part(new)}):
            with pytest.raises(WeightError, match="shares memory with (weight|part) in the model"):
                package.bind_weights(given, strict=False)
    given = {"weight": new, "part": part(new)} if persistent else {"weight": new}
    package.bind_weights(given)
    model.load_state_dict(given)
    torch.testing.assert_close(package.whole(X), model(X))
    torch.testing.assert_close(package.part(X), model.other(X))


class Twice(nn.Module):
    """A buffer by two names."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("c", torch.zeros(4))
        self.register_buffer("d", self.c)

    def counted(self, x: torch.Tensor) -> torch.Tensor:
        self.c.add_(x)
        return self.d * 1

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return self.c + x


def test_state_by_two_names_is_one_for_all_methods():
    model, x = Twice(), torch.ones(4)
    given = {one: aotpack.Method(getattr(model, one), (x,)) for one in ("counted", "read")}
    package = aotpack.compile(given, target="interpreter")
    new = {"c": torch.full((4,), 5.0), "d": torch.full((4,), 5.0)}
    package.bind_weights(new)
    model.load_state_dict(new)
    for method in ("read", "counted", "counted", "read"):
        assert torch.equal(getattr(package, method)(x), getattr(model, method)(x))


def test_columns_are_given_alone():
    whole = torch.rand(8, 16)
    package = aotpack.compile(Views(whole[:, 8:], whole[:, :8], True), (X,), target="interpreter")
    package.bind_weights({"weight": torch.ones(8, 8)}, strict=False)
    torch.testing.assert_close(package(X), X + 64 + whole[:, 8:].sum())


def test_weights_beside_each_other_are_given_alone():
    whole = torch.rand(6, 4)
    package = aotpack.compile(Views(whole[:2], whole[2:], True), (X,), target="interpreter")
    package.bind_weights({"weight": torch.ones(4, 4)}, strict=False)
    torch.testing.assert_close(package(X), X + 16 + whole[:2].sum())
