"""Weights that are objects around tensors, as `quantize_` of torchao makes them."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Self

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing

import aotpack
from aotpack.errors import TraceError
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.runtime import AotpackError
from aotpack.target import parse_targets
from tools.bench_traffic import moved_bytes

# --- an object of our own, for any version of torchao ---------------------------------------------


class Coded(torch.Tensor):
    """Codes of 8 bits and a scale for each row."""

    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    @classmethod
    def of(cls, weight: torch.Tensor) -> Self:
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def dequantize(self) -> torch.Tensor:
        return self.codes.to(self.scale.dtype) * self.scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts: dict[str, Any], context: None, *_: object) -> Self:
        return cls(parts["codes"], parts["scale"])

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is nn.functional.linear:
            return func(args[0], args[1].dequantize(), *args[2:], **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            made = cls(func(args[0].codes), func(args[0].scale))
            return return_and_correct_aliasing(func, args, kwargs or {}, made)
        raise NotImplementedError(str(func))


class Unseen(Coded):
    """One whose operators export sees no more than those of torch itself."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    act_quant_kwargs = None


class Dynamic(Unseen):
    """And one whose product is not that of its values."""

    act_quant_kwargs = ("bits", 8)


def coded(kind: type[Coded]) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64, bias=False))
    model[2].weight = model[0].weight  # shared
    model[0] = nn.Linear(64, 32)
    for layer in model[0], model[2]:
        layer.weight = nn.Parameter(kind.of(layer.weight.detach()), requires_grad=False)
    return nn.Sequential(model[0], model[1], nn.Linear(32, 64), model[2]).eval()


def wanted(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    first, _, middle, last = model
    x = middle(torch.relu(nn.functional.linear(x, first.weight.dequantize(), first.bias)))
    return nn.functional.linear(x, last.weight.dequantize())


X = torch.randn(3, 64)


@pytest.mark.parametrize(("kind", "target"), [(Coded, "interpreter"), (Unseen, "cpu")])
def test_parts_of_a_weight_are_weights(kind, target):
    model = coded(kind)
    packaged = aotpack.compile(model, (X,), target=target)
    torch.testing.assert_close(packaged(X), wanted(model, X), rtol=1e-4, atol=1e-5)
    held = {one.name: str(one.dtype) for one in packaged.manifest.weights}
    assert (held["0.weight_codes"], held["0.weight_scale"]) == ("int8", "float32")
    assert "0.weight" not in held and isinstance(model[0].weight, kind)
    packaged.bind_weights({"0.weight_scale": model[0].weight.scale * 2}, strict=False)
    model[0].weight = nn.Parameter(kind(model[0].weight.codes, model[0].weight.scale * 2), False)
    torch.testing.assert_close(packaged(X), wanted(model, X), rtol=1e-4, atol=1e-5)
    with pytest.raises(
        AotpackError, match="the layer of '0.weight' is quantised: .* bind '0.weight_codes'"
    ):
        packaged.bind_weights({"0.weight": model[0].weight}, strict=False)


def test_an_operator_that_the_object_lacks_is_named():
    with pytest.raises(TraceError, match="NotImplementedError: aten.t.default"):
        aotpack.compile(coded(Dynamic), (X,), target="cpu")


# --- torchao itself ------------------------------------------------------------------------------


def weight_only() -> dict[str, Callable[[], Any]]:
    q = pytest.importorskip("torchao.quantization")
    group = q.PerGroup(64)
    return {
        "int8": lambda: q.Int8WeightOnlyConfig(),
        "int8 in groups": lambda: q.Int8WeightOnlyConfig(granularity=group),
        "int4": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=group),
        "fp8": lambda: q.Float8WeightOnlyConfig(),
        "int8 of both": lambda: q.Int8DynamicActivationInt8WeightConfig(),
        "NVFP4": lambda: pytest.importorskip(
            "torchao.prototype.mx_formats"
        ).NVFP4WeightOnlyConfig(),
        "int8 and int4": lambda: q.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=group
        ),
    }


def quantised(config: Any, dtype: torch.dtype, *sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    pairs = pairwise(sizes)
    model = nn.Sequential(*(nn.Linear(*pair) for pair in pairs)).eval().to(dtype)
    pytest.importorskip("torchao.quantization").quantize_(model, config)
    return model


CODES = {"int4": 0.5, "int8 and int4": 0.5, "NVFP4": 0.5}  # bytes of each; else 1
SCALES = {"int8 in groups": 1.08, "int4": 1.08, "int8 and int4": 1.08, "NVFP4": 1.13}  # and codes
CODES_OF_INT4, AS_OF_TORCHAO = ("codes", "scales"), ("qdata", "scale", "zero_point")
NAMES = ["int8", "int8 in groups", "int4", "fp8", "int8 of both", "int8 and int4", "NVFP4"]


@pytest.mark.parametrize(
    ("name", "target"), [*((name, "cpu") for name in NAMES), ("NVFP4", "interpreter")]
)
def test_products_are_those_of_torchao(name, target):
    model, x = quantised(weight_only()[name](), torch.float32, 256, 128, 64), torch.randn(4, 256)
    packaged = aotpack.compile(model, (x,), target=target)
    torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_moves_what_is_stored(name):
    model = quantised(weight_only()[name](), torch.bfloat16, 1024, 2048, 512)
    x = torch.randn(1, 1024, dtype=torch.bfloat16)
    made = build_of(Source(model, (x,)), BuildOptions(targets=parse_targets("sm_90"))).scheduled
    stored = sum(weight.data.nbytes for weight in made.weights)
    codes = CODES.get(name, 1) * (1024 * 2048 + 2048 * 512)
    assert codes < stored < SCALES.get(name, 1.05) * codes
    assert moved_bytes(made.on(90), 90) <= 1.05 * stored


def integers(bits: int, *, has_zeros: bool, group: int = 0) -> Any:
    q = pytest.importorskip("torchao.quantization")
    how = q.MappingType.ASYMMETRIC if has_zeros else q.MappingType.SYMMETRIC
    return q.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        granularity=q.PerGroup(group) if group else q.PerAxis(0),
        mapping_type=how,
    )


@pytest.mark.parametrize(
    ("bits", "has_zeros", "columns", "group", "parts"),
    [
        (4, False, 256, 64, CODES_OF_INT4),
        (4, True, 256, 64, (*CODES_OF_INT4, "zeros")),
        (3, True, 254, 0, (*CODES_OF_INT4, "zeros")),
        (4, True, 30, 5, (*CODES_OF_INT4, "zeros")),  # groups of odd length
        (4, False, 30, 10, CODES_OF_INT4),  # an odd number of them: one in both halves
        (4, False, 255, 0, AS_OF_TORCHAO),  # a byte has two codes
        (4, True, 45, 5, AS_OF_TORCHAO),
        (5, False, 256, 64, AS_OF_TORCHAO),
    ],
)
def test_two_integers_of_up_to_four_bits_are_a_byte(bits, has_zeros, columns, group, parts):
    config = integers(bits, has_zeros=has_zeros, group=group)
    model, x = quantised(config, torch.float32, columns, 64), torch.randn(4, columns)
    packaged = aotpack.compile(model, (x,), target="cpu")
    torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-5)
    held = {one.name: one for one in packaged.manifest.weights}
    assert {*held} == {"0.bias", *(f"0.weight_{part}" for part in parts)}
    assert held[f"0.weight_{parts[0]}"].size == (
        64 * columns // 2 if "codes" in parts else 64 * columns
    )


def test_layers_share_the_codes_of_one_weight():
    model, x = (
        quantised(integers(4, has_zeros=False), torch.float32, 64, 64, 64),
        torch.randn(2, 64),
    )
    model[1].weight = model[0].weight
    packaged = aotpack.compile(model, (x,), target="cpu")
    torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-5)
    codes = [one for one in packaged.manifest.weights if one.name.endswith("codes")]
    assert [one.names for one in codes] == [("0.weight_codes", "1.weight_codes")]


def blocks(dtype: torch.dtype) -> Any:
    """MX of both factors, computed by operators of torch."""
    mx = pytest.importorskip("torchao.prototype.mx_formats")
    common = pytest.importorskip("torchao.quantization.quantize_.common")
    return mx.MXDynamicActivationMXWeightConfig(
        activation_dtype=dtype,
        weight_dtype=dtype,
        kernel_preference=common.KernelPreference.EMULATED,
    )


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_blocks_with_a_scale_each(target):
    model = quantised(blocks(torch.float8_e4m3fn), torch.bfloat16, 256, 128, 64)
    x = torch.randn(4, 256).bfloat16()
    packaged = aotpack.compile(model, (x,), target=target)
    torch.testing.assert_close(packaged(x), model(x))
    held = {one.name: str(one.dtype) for one in packaged.manifest.weights}
    names = "0.parametrizations.weight.original0", "0.parametrizations.weight.original1"
    assert [held[name] for name in names] == ["float8_e4m3fn", "uint8"]


def test_a_step_moves_the_codes_of_blocks_and_their_scales():
    """Scales are exponents in a byte; the weight program makes factors of two bytes of them."""
    model = quantised(blocks(torch.float8_e4m3fn), torch.bfloat16, 1024, 2048, 512)
    x = torch.randn(1, 1024, dtype=torch.bfloat16)
    made = build_of(Source(model, (x,)), BuildOptions(targets=parse_targets("sm_90"))).scheduled
    codes = 1024 * 2048 + 2048 * 512
    assert sum(weight.data.nbytes for weight in made.weights) < 1.04 * codes
    assert moved_bytes(made.on(90), 90) <= 1.05 * sum(one.data.nbytes for one in made.weights)


@pytest.mark.parametrize(("columns", "part"), [(48, "qdata"), (80, "qdata"), (96, "codes")])
def test_rows_that_blocks_do_not_halve_are_widened_by_torchao(columns, part):
    config = weight_only()["NVFP4"]()
    model, x = quantised(config, torch.bfloat16, columns, 80), torch.randn(4, columns).bfloat16()
    packaged = aotpack.compile(model, (x,), target="cpu")
    torch.testing.assert_close(packaged(x), model(x))
    assert f"0.weight_{part}" in {one.name for one in packaged.manifest.weights}


def test_codes_of_activations_beside_odd_groups():
    """Their weight is torchao's object again: of bytes in halves, or of its own."""
    q = pytest.importorskip("torchao.quantization")
    config = q.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=q.PerGroup(5)
    )
    for columns, part in (30, "codes"), (15, "qdata"):
        model, x = quantised(config, torch.float32, columns, 64), torch.randn(4, columns)
        packaged = aotpack.compile(model, (x,), target="interpreter")
        torch.testing.assert_close(packaged(x), model(x), rtol=1e-4, atol=1e-5)
        assert f"0.weight_{part}" in {one.name for one in packaged.manifest.weights}


def test_blocks_of_activations_in_four_bits_are_refused():
    model = quantised(blocks(torch.float4_e2m1fn_x2), torch.bfloat16, 256, 128)
    with pytest.raises(TraceError, match="of the kind MXTensor apart: .* with --quantize"):
        aotpack.compile(model, (torch.randn(4, 256).bfloat16(),), target="cpu")
