"""Models from any device: on meta, with devices named in forward, with tensors of any kind."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import aotpack
from aotpack.errors import TraceError
from aotpack.stages import Traced
from aotpack.trace import trace

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Tied(nn.Module):
    """Tied weights, a view of one, a buffer, and a tensor that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("part", self.first.weight.detach()[1:3])

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) @ self.part.t()


def tied_on_meta() -> nn.Module:
    with torch.device("meta"):
        return Tied()


def traced(module: Any, *args: Any, **options: Any) -> Traced:
    return trace(module, args, name="m", version="1", **options)


def test_on_meta_a_model_is_that_of_the_host_without_values() -> None:
    host, meta = traced(Tied(), X), traced(tied_on_meta(), X.to("meta"), needs_weights=False)
    assert meta.graph.nodes == host.graph.nodes and meta.graph.signature == host.graph.signature
    assert [one.names for one in meta.graph.weights] == [one.names for one in host.graph.weights]
    assert meta.golden.outputs == () and "on meta have no values" in meta.golden.note


def test_a_package_without_weights_is_built_from_meta(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).bfloat16()
    args = (torch.empty(3, 4, device="meta", dtype=torch.bfloat16),)
    wheels = [
        aotpack.build(one, given, targets="interpreter", weights="none", out=tmp_path / name)
        for one, given, name in (
            (model, args, "meta"),
            (model.to_empty(device="cpu"), (torch.zeros(3, 4, dtype=torch.bfloat16),), "host"),
        )
    ]
    assert wheels[0].name == wheels[1].name
    with zipfile.ZipFile(wheels[0]) as archive:
        assert b"on meta have no values" in archive.read("model/manifest.json")


def test_an_exported_program_on_meta_moves_to_the_host() -> None:
    program = torch.export.export(tied_on_meta(), (X.to("meta"),))
    graph = traced(program, X.to("meta"), needs_weights=False).graph
    assert graph.nodes == traced(torch.export.export(Tied(), (X,)), X).graph.nodes
    assert next(iter(program.state_dict.values())).is_meta


def test_an_exported_program_may_name_its_input_as_a_builtin() -> None:
    with torch.device("meta"):
        model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.empty(4, 8)
    program = torch.export.export(model, (x,))
    assert program.graph_signature.user_inputs == ("input",)
    assert len(traced(program, x, needs_weights=False).graph.signature.inputs) == 1


class OnDevice(nn.Module):
    """Names a GPU in each way that torch has."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.device) + torch.ones(4, device=self.device)
        x = x.to("cuda:0", torch.float32) * self.table.cuda() + x.new_zeros(4, device="cuda")
        y = torch.arange(4, device="cuda").type("torch.cuda.FloatTensor")
        return (x + y + torch.tensor([1.0], device=0)).to(device="cuda", dtype=torch.float64)


def test_devices_in_forward_are_the_host() -> None:
    host, gpu = traced(OnDevice("cpu"), X), traced(OnDevice("cuda"), X)
    assert gpu.as_text() == host.as_text() and gpu.golden == host.golden


class Holding(nn.Module):
    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.held = nn.Parameter(tensor, requires_grad=False)
        self.constant = [tensor]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.held + self.constant[0]


def test_negated_tensors_are_read_with_their_sign() -> None:
    negated = torch._neg_view(torch.arange(1.0, 5.0))
    assert negated.is_neg()
    golden = traced(Holding(negated), torch._neg_view(X)).golden
    exact = -X * negated + negated
    assert np.allclose(np.frombuffer(golden.outputs[0][3], np.float32), exact.numpy().ravel())
    assert np.array_equal(np.frombuffer(golden.inputs[0][3], np.float32), -X.numpy().ravel())


def freed(shape: tuple[int, ...]) -> Tensor:
    tensor = torch.ones(shape)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> Tensor:
    with FakeTensorMode():
        return torch.ones(4)


class Hook:
    offload = True


class Plain(nn.Module):
    """An attribute that is no buffer."""

    def __init__(self, plain: Any, *, is_read: bool) -> None:
        super().__init__()
        self.plain, self.is_read = plain, is_read

    def forward(self, x: torch.Tensor) -> Any:
        plain = self.plain[0] if isinstance(self.plain, list) else self.plain
        return x @ plain if self.is_read else x + 1


def offloaded() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4).to("meta"))
    model[0]._hf_hook = Hook()
    return model


REFUSED: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], str]] = {
    "freed weight": (lambda: Holding(freed((4,))), lambda: X, "held has no memory: .*FSDP"),
    "freed input": (nn.ReLU, lambda: freed((4,)), r"the example input \[0\] has no memory"),
    "fake weight": (lambda: Holding(fake()), lambda: X, "held is a FakeTensor, .*weights 'none'"),
    "fake input": (nn.ReLU, fake, r"the example input \[0\] is a FakeTensor"),
    "sparse attribute": (
        lambda: Plain(X.to_sparse(), is_read=True),
        lambda: X,
        r"the attribute plain has the layout torch.sparse_coo; dense",
    ),
    "quantized attribute": (
        lambda: Plain([torch.quantize_per_tensor(X, 0.5, 0, torch.qint8)], is_read=True),
        lambda: X,
        r"the attribute plain\[0\] has the type torch.qint8; give tensor.dequantize\(\)",
    ),
    "nested attribute": (
        lambda: Plain(torch.nested.nested_tensor([X]), is_read=False),
        lambda: X,
        "the attribute plain is a nested tensor; dense",
    ),
    "sparse input": (nn.ReLU, X.to_sparse, r"input \[0\] has the layout torch.sparse_coo; dense"),
    "nested input": (
        nn.ReLU,
        lambda: torch.nested.nested_tensor([X, X[:2]]),
        r"input \[0\] is a nested tensor; dense tensors .*to_padded_tensor",
    ),
    "quantized input": (
        nn.ReLU,
        lambda: torch.quantize_per_tensor(X, 0.5, 0, torch.qint8),
        r"input \[0\] has the type torch.qint8; give tensor.dequantize\(\)",
    ),
    "meta": (
        tied_on_meta,
        lambda: X,
        r"are\n  first.weight\n(.|\n)*--weights none",
    ),
    "offloaded": (offloaded, lambda: X, "the weights of 0 are offloaded: .*remove_hook_from"),
}


class Ragged(nn.Module):
    def __init__(self, layout: torch.layout) -> None:
        super().__init__()
        self.layout = layout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor([x, x[:2]], layout=self.layout).to_padded_tensor(0.0)


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_inside_of_a_model_are_refused(layout: torch.layout) -> None:
    with pytest.raises(TraceError, match="Nested tensors are not packaged: .* a padded tensor"):
        traced(Ragged(layout), X)


@pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:.*quantize_per_tensor")
@pytest.mark.parametrize("kind", REFUSED)
def test_tensors_that_cannot_be_read_are_refused(kind: str) -> None:
    module, given, words = REFUSED[kind]
    with pytest.raises(TraceError, match=words):
        traced(module(), given())


def test_several_are_refused_at_once() -> None:
    module = nn.ModuleList([Holding(freed((4,))), Holding(fake())])
    with pytest.raises(TraceError, match=r"0.held has no memory: .*\n  1.held is a FakeTensor"):
        traced(module, X)


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_constants_without_values_are_refused() -> None:
    with pytest.raises(TraceError, match="scale on meta: a package contains these constants"):
        traced(Constant().to("meta"), X, needs_weights=False)


@pytest.mark.parametrize("plain", [X.to_sparse(), [X.to_sparse_csr()], X.to_mkldnn()])
def test_attributes_that_are_not_read_may_be_anything(plain: Any) -> None:
    package = aotpack.compile(Plain(plain, is_read=False), (X,), target="cpu")
    torch.testing.assert_close(package(X), X + 1)


@pytest.mark.parametrize("length", [lambda x: 5, lambda x: x.shape[1]])
def test_a_result_on_meta_is_refused(trace_function, length):
    """Its size may be used."""
    shapes = {"x": {1: torch.export.Dim("width", min=2, max=9)}}
    options = {"device": "meta"}
    given = torch.randn(3, 5)
    assert trace_function(
        lambda self, x: x * torch.linspace(0, 1, length(x), **options).shape[0],
        given,
        dynamic_shapes=shapes,
    )
    with pytest.raises(TraceError, match=r"returns a tensor of \[(5|width)\] on meta.*\n  at .*"):
        trace_function(
            lambda self, x: (x, torch.linspace(0, 1, length(x), **options)),
            given,
            dynamic_shapes=shapes,
        )
