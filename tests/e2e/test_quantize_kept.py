"""What ``quantize`` keeps as it is, with words, and weights of all classes and sizes of numbers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import aotpack
from aotpack import Method
from aotpack.errors import UsageError
from aotpack.ir.ops.quantization import Quantization, read_quantization
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.target import parse_targets
from aotpack.trace.agreement.steps import seen_calls
from aotpack.trace.quantize.codes import quantized, refusal, weight_of

INT8 = Quantization("int8", None)


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """The weight that codes of 8 bits stand for."""
    return weight_of(quantized(weight, INT8), "int8", weight.dtype)


def lines_of(source: Source) -> tuple[str, ...]:
    """What a build says of each layer."""
    return build_of(source, BuildOptions(targets=parse_targets("cpu"), quantize=INT8)).quantized


class Written(nn.Module):
    """Its forward changes the weight of ``inner`` by ``change``, and reads that of ``outer``."""

    def __init__(self, change: Callable[[nn.Linear, torch.Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.outer, self.change = nn.Linear(16, 16), nn.Linear(16, 16), change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.change(self.inner, x)
        return self.outer(self.inner(x))


@pytest.mark.parametrize(
    "change",
    [
        lambda layer, _: layer.weight.mul_(0.5),
        lambda layer, _: layer.weight.data.add_(0.25),
        lambda layer, _: layer.weight.t()[3:].zero_(),
        lambda layer, x: layer.weight.copy_(x[0].expand(16, 16)),
    ],
)
def test_weights_that_forward_changes_are_kept(change):
    torch.manual_seed(0)
    model, x = Written(change).eval(), torch.randn(2, 16)
    before = model.inner.weight.detach().clone()
    lines = lines_of(Source(model, (x,)))
    assert lines[0] == "inner: kept, forward changes it"
    assert "of the weight's norm" in lines[1]
    assert torch.equal(model.inner.weight, before)
    packaged, wanted = aotpack.compile(model, (x,), quantize="int8", target="cpu"), model
    with torch.no_grad():
        wanted.outer.weight.copy_(rounded(model.outer.weight))
        for _ in range(3):
            torch.testing.assert_close(packaged(x), wanted(x), rtol=1e-4, atol=1e-4)


def _replaced(layer: nn.Linear, x: torch.Tensor) -> None:
    layer.weight = nn.Parameter(layer.weight * 2)


def _fails(layer: nn.Linear, x: torch.Tensor) -> None:
    raise ValueError(f"no {x}")


@pytest.mark.parametrize(
    ("change", "with_sizes", "with_values"),
    [
        (lambda layer, _: layer.weight.data.mul_(2), True, True),
        (lambda layer, x: layer.weight.data.mul_(x.sum().item()), False, True),
        (lambda layer, _: setattr(layer.weight, "data", layer.weight * 2), True, True),
        (_replaced, True, True),
        (lambda layer, _: torch._foreach_mul_([layer.weight, layer.bias], 2.0), True, True),
        (lambda layer, _: (layer.weight * 2).mul_(3), False, False),
        (lambda layer, _: layer.bias.mul_(3), False, False),
        (_fails, False, False),
    ],
)
def test_a_call_tells_which_weights_it_writes_to(change, with_sizes, with_values):
    """On sizes alone, and on values if these are needed; what it changed is put back."""
    model, x = Written(change).eval(), torch.ones(2, 16)
    weights, before = [model.inner.weight, model.outer.weight], copy.deepcopy(model)
    for has_values, is_found in (False, with_sizes), (True, with_values):
        calls = {"": (model, ((x,), {}))}
        seen = seen_calls(calls, weights, has_values=has_values)
        found = seen[""].written if seen else set()
        assert found == ({id(weights[0])} if is_found else set())
        assert model.inner.weight is weights[0]
        for name, one in model.state_dict().items():
            assert torch.equal(one, before.state_dict()[name])


@pytest.mark.parametrize("quantize", ["int8", "int4:group=16", "fp8"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_codes_of_the_largest_numbers_are_finite(dtype, quantize):
    how, largest = read_quantization(quantize), torch.finfo(dtype).max
    weight = torch.tensor([[largest, -largest], [1.0, -1.0]], dtype=dtype).repeat(1, 128)
    made = weight_of(quantized(weight, how), how.kind, dtype)
    assert ((made.double() / weight.double() - 1).abs() < 0.08).all()


def test_errors_are_those_of_the_layers_type():
    """The largest float16 is 65504: what a row rounds up to may be more."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 2, dtype=torch.float16)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[65504.0], [1e-5]]).expand(2, 64))
    (line,) = lines_of(Source(layer, (torch.zeros(1, 64, dtype=torch.float16),)))
    assert line.startswith("the model: error 0.05%")


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (torch.tensor([[1.0, float("inf")]]), "it has numbers that are not finite"),
        (torch.tensor([[1.0, float("nan")]]), "it has numbers that are not finite"),
        (torch.ones(2, 0), "it has no elements"),
        (torch.ones(0, 2), "it has no elements"),
        (torch.ones(2, 2).to(torch.float8_e4m3fn), r"it is float8_e4m3fn[2, 2], no matrix of "),
        (torch.ones(2, 2, 2), "it is float32[2, 2, 2], no matrix of "),
        (torch.ones(2, 2, dtype=torch.float64) * 1e200, None),
    ],
)
def test_weights_without_codes(weight, why):
    found = refusal(weight, INT8)
    assert found is None if why is None else found.startswith(why)


def test_layers_without_codes_are_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(0, 5), nn.Linear(5, 4), nn.Linear(4, 3), nn.Embedding(3, 2))
    with torch.no_grad():
        model[1].weight[0, 0] = float("inf")
    model[2].weight_scales = 3
    methods = {
        f"linear_{size}": Method(one, (torch.zeros(1, size),))
        for one, size in zip(model, [0, 5, 4], strict=False)
    }
    methods["embed"] = Method(model[3], (torch.tensor([1]),))
    lines = lines_of(Source(methods))
    assert [line.partition("kept, ")[2] for line in lines] == [
        "it has no elements",
        "it has numbers that are not finite",
        "it has an attribute that codes need: weight_codes, weight_scales or weight_zeros",
        "",
    ]


class Keyed(nn.Linear):
    """Classes that are derived from it say a word."""

    def __init_subclass__(cls, *, word: str) -> None:
        super().__init_subclass__()


class Doubled(Keyed, word="twice"):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def test_codes_of_classes_that_are_derived_with_words():
    torch.manual_seed(0)
    layer, x = Doubled(16, 4).eval(), torch.randn(2, 16)
    packaged = aotpack.compile(layer, (x,), quantize="int8", target="cpu")
    wanted = 2 * nn.functional.linear(x, rounded(layer.weight), layer.bias)
    torch.testing.assert_close(packaged(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quantize", ["int8", "int8:group=16", "int4:group=16", "fp8:group=16"])
def test_codes_of_a_weight_that_is_the_transposed_one_of_another(quantize):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 32)).eval(), torch.randn(2, 32)
    model[1].weight = nn.Parameter(model[0].weight.data.t())
    packaged = aotpack.compile(model, (x,), quantize=quantize, target="cpu")
    how = read_quantization(quantize)
    with torch.no_grad():
        weights = [layer.weight.contiguous() for layer in model]
        for layer, weight in zip(model, weights, strict=True):
            layer.weight = nn.Parameter(weight_of(quantized(weight, how), how.kind, weight.dtype))
        torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-4)


class Reading(nn.Module):
    """Its result is what ``read`` makes of a layer and what the layer gives."""

    def __init__(self, read: Callable[[nn.Linear, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.read = nn.Linear(16, 16), read

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.read(self.layer, self.layer(x))


@pytest.mark.parametrize(
    ("read", "how"),
    [
        (lambda layer, y: y * sum(one.square().sum() for one in layer.parameters()), "aten.pow"),
        (lambda layer, y: y * (2 if isinstance(layer.weight, nn.Parameter) else 3), "aten.mul.T"),
        (lambda layer, y: y * (2 if layer.weight.requires_grad else 3), "aten.mul.T"),
        (lambda layer, y: y + next(one for one in layer.parameters() if one.ndim == 2), "StopIt"),
        (lambda layer, y: y + layer.state_dict()["weight"], "it fails: KeyError: 'weight'"),
        (lambda layer, y: y[y[:, 0].nonzero()[:, 0]] * len([*layer.buffers()]), "aten.mul.Tensor"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_forward_that_takes_weights_for_parameters_is_refused(read, how, device):
    with torch.random.fork_rng():
        model = Reading(read).to(device).eval()
    weights = {"weights": "none"} if device == "meta" else {}
    if device == "meta" and "nonzero" in read.__code__.co_names:
        return  # its calls need values
    with pytest.raises(UsageError, match=f"forward computes something else: .*{how}"):
        aotpack.build(model, (torch.ones(16, 16),), quantize="int8", targets="cpu", **weights)


@pytest.mark.parametrize(
    "read",
    [
        lambda layer, y: y.to(next(layer.parameters()).dtype) @ layer.weight.t(),
        lambda layer, y: nn.functional.linear(y, layer.weight[3:7]) + layer.weight.sum(),
        lambda layer, y: y * len([*layer.children()]) + layer.weight.shape[0],
        lambda layer, y: y[:, None].transpose(0, 1) @ layer.weight + layer.bias,
        lambda layer, y: y * (2 if layer.bias.requires_grad else 3),
    ],
)
def test_a_forward_that_reads_weights_of_layers_is_packaged(read):
    torch.manual_seed(0)
    model, x = Reading(read).eval(), torch.randn(2, 16)
    packaged = aotpack.compile(model, (x,), quantize="int8", target="cpu")
    with torch.no_grad():
        model.layer.weight.copy_(rounded(model.layer.weight))
        torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_forward_that_asks_for_gradients_of_frozen_weights_is_packaged():
    """A weight that requires none and its codes answer alike."""
    torch.manual_seed(0)
    model = Reading(lambda layer, y: y * (2 if layer.weight.requires_grad else 3)).eval()
    model.layer.weight.requires_grad_(False)
    x = torch.randn(2, 16)
    packaged = aotpack.compile(model, (x,), quantize="int8", target="cpu")
    model.layer.weight.copy_(rounded(model.layer.weight))
    with torch.no_grad():
        torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-4)
