"""Operators that round to codes: those of QAT and of PT2E, with eager's exact numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import UnsupportedError
from aotpack.trace import load_model
from aotpack.trace.operators.quantized import fake_codes
from aotpack.trace.operators.quantized.decomposed import decomposed_table

Q: Any = torch.ops.quantized_decomposed
ATEN = torch.ops.aten
LOW, HIGH = -128, 127
TIES = torch.arange(-300, 300) * 0.5
EXTREME = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e20, -1e20, 1e10, 3e38, 1e-40, -0.0])
DRAWN = torch.randn(999, generator=torch.Generator().manual_seed(0)) * 60
X = torch.cat([TIES, EXTREME[:3], DRAWN]).reshape(3, -1)
NUMBERS = torch.cat([TIES, EXTREME, DRAWN]).reshape(3, -1)
SCALES = torch.tensor([1.0, 0.1, 0.3713])
ZEROS = torch.tensor([3, -7, 0], dtype=torch.int32)
EXACT = {"rtol": 0, "atol": 0, "equal_nan": True}
TYPES = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
}
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.3713, 7e-3])
@pytest.mark.parametrize("zero", [0, 3, -8])
def test_fake_codes_are_eager_s(dtype: torch.dtype, scale: float, zero: int) -> None:
    x, number = NUMBERS.to(dtype), torch.tensor([zero], dtype=torch.int32)
    sizes = torch.tensor([scale, 1.0, 0.3])
    of_tensors = ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    calls: list[tuple[Any, Callable[..., Any], tuple[Any, ...]]] = [
        (ATEN.fake_quantize_per_tensor_affine_cachemask, fake_codes.per_tensor, (scale, zero)),
        *(
            (of_tensors, fake_codes.per_tensor_by_tensors, (sizes[:1], number, torch.tensor([on])))
            for on in (0, 1)
        ),
        *(
            (
                ATEN.fake_quantize_per_channel_affine_cachemask,
                fake_codes.per_channel,
                (sizes, (ZEROS + zero).to(kind) + shift, 0),
            )
            for kind, shift in ((torch.int32, 0), (torch.float32, 0.5), (torch.float16, 0))
        ),
    ]
    for operator, own, given in calls:
        wanted = operator(x, *given, LOW, HIGH)
        torch.testing.assert_close(own(x, *given, LOW, HIGH), wanted, **EXACT)


ARGUMENTS: dict[str, Callable[[torch.dtype, int, int], tuple[Any, ...]]] = {
    "quantize_per_tensor.default": lambda t, low, high: (X, 0.1, 3, low, high, t),
    "quantize_per_tensor.tensor": lambda t, low, high: (
        *(X.half(), SCALES[1:2].double(), ZEROS[:1]),
        *(low, high, t),
    ),
    "quantize_per_tensor.tensor2": lambda t, low, high: (
        *(X, SCALES[2], ZEROS[0].long()),
        *(torch.tensor(low), torch.tensor(high), t),
    ),
    "quantize_per_channel.default": lambda t, low, high: (X, SCALES, ZEROS, 0, low, high, t),
    "quantize_per_token.default": lambda t, low, high: (
        *(X, SCALES[:, None], ZEROS[:, None]),
        *(low, high, t),
    ),
    "quantize_per_channel_group.default": lambda t, low, high: (
        *(DRAWN[:96].reshape(3, 32), SCALES.repeat(4).reshape(3, 4), ZEROS.repeat(4)),
        *(low, high, t, 8),
    ),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_codes_are_eager_s(name: str, dtype: torch.dtype) -> None:
    own = {str(operator): made for operator, made in decomposed_table().items()}
    arguments = ARGUMENTS[name](dtype, *TYPES[dtype])
    packet, overload = name.split(".")
    wanted = getattr(getattr(Q, packet), overload)(*arguments)
    found = own[f"quantized_decomposed.{name}"](*arguments)
    torch.testing.assert_close(found, wanted, **EXACT)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def faked(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    channels = torch.fake_quantize_per_channel_affine
    return (
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, LOW, HIGH),
        torch.fake_quantize_per_tensor_affine(x, SCALES[2], ZEROS[1], 0, 255),
        channels(x, SCALES, ZEROS, 0, LOW, HIGH),
        channels(x, SCALES, ZEROS + 0.5, 0, LOW, HIGH),
        channels(x.half(), SCALES, ZEROS, 0, LOW, HIGH),
        *ATEN.fake_quantize_per_tensor_affine_cachemask(x, 1.0, -7, LOW, HIGH),
    )


def coded(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    whole = torch.int8
    codes = Q.quantize_per_tensor(x, 0.1, 3, LOW, HIGH, whole)
    scale, zero = Q.choose_qparams.tensor(x.nan_to_num(0, 9, -9), LOW, HIGH, 1e-5, whole)
    chosen = Q.quantize_per_tensor.tensor(x, scale, zero, LOW, HIGH, whole)
    channels = Q.quantize_per_channel(x, SCALES, ZEROS, 0, 0, 255, torch.uint8)
    sizes, zeros = Q.choose_qparams_per_token_asymmetric(x.nan_to_num(0, 9, -9), whole)
    tokens = Q.quantize_per_token(x, sizes.float(), zeros, LOW, HIGH, whole)
    return (
        codes,
        Q.dequantize_per_tensor(codes, 0.1, 3, LOW, HIGH, whole),
        Q.dequantize_per_tensor.tensor(chosen, scale, zero, LOW, HIGH, whole),
        Q.dequantize_per_channel(channels, SCALES, ZEROS, 0, 0, 255, torch.uint8),
        Q.dequantize_per_token(tokens, sizes, zeros, LOW, HIGH, whole, torch.float32),
        *(Q.quantize_per_tensor(x, 0.1, 3, *TYPES[kind], kind) for kind in TYPES),
    )


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("function", [faked, coded])
def test_packages_give_eager_s_codes(function: Callable[..., Any], target: str) -> None:
    shapes = ({1: Dim("n", min=1, max=2000)},)
    packaged = aotpack.compile(Function(function), (X,), dynamic_shapes=shapes, target=target)
    for x in (X, X[:, :1].clone(), NUMBERS[:, 200:231].clone()):
        for found, wanted in zip(packaged(x), function(x), strict=True):
            torch.testing.assert_close(found, wanted, **EXACT)


class Converted(nn.Module):
    """Two layers as PT2E leaves them: codes of weights, and codes between layers."""

    def __init__(self) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(1)
        for name, shape in (("first", (16, 8)), ("second", (4, 16))):
            codes = torch.randint(-127, 128, shape, generator=made)
            self.register_buffer(name, codes.to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for codes in (self.first, self.second):
            scales = torch.full((len(codes),), 2.0**-6)
            zeros = torch.zeros(len(codes), dtype=torch.int64)
            weight = Q.dequantize_per_channel(codes, scales, zeros, 0, -127, 127, torch.int8)
            given = Q.quantize_per_tensor(x, 2.0**-4, 5, 0, 255, torch.uint8)
            given = Q.dequantize_per_tensor(given, 2.0**-4, 5, 0, 255, torch.uint8)
            x = F.linear(given, weight).relu()
        return x


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_converted_model_agrees(target: str, tmp_path: Path) -> None:
    model, shapes = Converted(), ({0: Dim("rows", min=1, max=64)},)
    program = torch.export.export(model, (torch.randn(3, 8),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "converted.pt2")
    loaded = load_model(str(tmp_path / "converted.pt2"))
    assert isinstance(loaded.module, torch.export.ExportedProgram)
    packaged = aotpack.compile(loaded.module, loaded.args, target=target)
    for rows in (1, 3, 64):
        x = torch.randn(rows, 8) * 4
        torch.testing.assert_close(packaged(x), model(x), **EXACT)


def test_observers_are_refused() -> None:
    def observed(x: torch.Tensor) -> torch.Tensor:
        on, numbers, zeros = torch.ones(1, dtype=torch.long), torch.ones(1), torch.zeros(1).int()
        given = (on, on, numbers, numbers.clone(), numbers.clone(), zeros)
        return torch.fused_moving_avg_obs_fake_quant(x, *given, 0.01, LOW, HIGH, 0)

    with pytest.raises(UnsupportedError, match="fused_moving_avg_obs.*no lowering"):
        aotpack.compile(Function(observed), (DRAWN,), target="cpu")
