"""Decompositions of ``quantized_decomposed``, the operators of models that PT2E converted.

torch defines them when torch.ao.quantization is imported; the table has those that are defined.
Numbers that eager reads from tensors of one element stay on the device.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from aotpack.trace.operators.quantized.fake_codes import along, per_channel

Bound = int | torch.Tensor
_Pair = tuple[torch.Tensor, torch.Tensor]
_TOKEN_LOW, _TOKEN_HIGH = -128, 127


def _number(value: Any) -> Any:
    """A number, or the one element of a tensor, as arithmetic in float32 takes it."""
    return value.reshape(()).float() if isinstance(value, torch.Tensor) else value


def _quantize(
    x: torch.Tensor, scale: Any, zero_point: Any, low: Bound, high: Bound, dtype: torch.dtype
) -> torch.Tensor:
    inverse = _number(1.0 / (scale if isinstance(scale, float) else _widened(scale)))
    codes = torch.round(x.float() * inverse) + _number(zero_point)
    held: torch.Tensor = torch.clamp(codes, _number(low), _number(high))
    return held.to(dtype)


def _widened(scale: torch.Tensor) -> torch.Tensor:
    return scale if scale.dtype is torch.float64 else scale.float()


def _dequantize(
    x: torch.Tensor,
    scale: Any,
    zero_point: Any,
    low: Bound,
    high: Bound,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    kind = out_dtype or torch.float32
    zero, factor = _number(zero_point), _number(scale)
    shifted: torch.Tensor = x.to(kind) - zero
    return torch.mul(shifted.to(kind), factor).to(kind)


def _quantize_channels(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    inverse, zero = 1.0 / along(scales, x, axis), along(zero_points, x, axis)
    return torch.clamp(torch.round(x.float() * inverse) + zero, low, high).to(dtype)


def _dequantize_channels(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    shifted = x if zero_points is None else x - along(zero_points, x, axis)
    return (shifted * along(scales, x, axis)).to(out_dtype or torch.float32)


def _quantize_tokens(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Here zero points are added before codes are rounded."""
    return (x * (1.0 / scales) + zero_points).round().clamp(low, high).to(dtype)


def _dequantize_tokens(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> torch.Tensor:
    return ((x - zero_points) * scales).to(output_dtype)


def _quantize_groups(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int,
) -> torch.Tensor:
    """Without eager's check for NaN."""
    grouped, scale, zero = _groups(x, scales, group_size), *_columns(scales, zero_points)
    return _quantize_tokens(grouped, scale, zero, low, high, dtype).reshape(x.shape)


def _dequantize_groups(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> torch.Tensor:
    grouped = _groups(x, scales, group_size)
    if zero_points is not None:
        grouped = grouped - zero_points.reshape(-1, 1)
    return (grouped * scales.reshape(-1, 1)).reshape(x.shape).to(output_dtype)


def _groups(x: torch.Tensor, scales: torch.Tensor, size: int) -> torch.Tensor:
    """Rows of a group each; one longer than a row is the row."""
    return x.reshape(-1, x.shape[-1] if scales.shape[-1] == 1 else size)


def _columns(*values: torch.Tensor) -> list[torch.Tensor]:
    return [value.reshape(-1, 1) for value in values]


def _choose(
    x: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype, *, is_symmetric: bool
) -> _Pair:
    """The scale and the zero point for the range of all elements, which contains 0."""
    least = torch.full((1,), eps, dtype=torch.float32)
    smallest, largest = x.amin().clamp(max=0), x.amax().clamp(min=0)
    if is_symmetric:
        span = torch.maximum(-smallest, largest) / (float(high - low) / 2)
        zero = torch.full((1,), 128 if dtype is torch.uint8 else 0, dtype=torch.int64)
        return torch.maximum(span, least).double(), zero
    scale = torch.maximum((largest - smallest) / float(high - low), least)
    zero = (low - torch.round(smallest / scale).to(torch.int32)).clamp(low, high)
    return scale.double(), zero.to(torch.int64)


def _choose_for_tokens(x: torch.Tensor, dtype: torch.dtype) -> _Pair:
    largest = x.abs().amax(-1, keepdim=True)
    largest = largest.float() if x.dtype is torch.float16 else largest
    scales = largest.clamp(min=1e-5) / _TOKEN_HIGH
    return scales, torch.zeros_like(scales)


def _choose_asymmetric(x: torch.Tensor, dtype: torch.dtype) -> _Pair:
    """The zero point is that of the end of the range with the smaller error."""
    low, high = _TOKEN_LOW, _TOKEN_HIGH
    smallest = x.amin(-1, keepdim=True).clamp(max=0)
    largest = x.amax(-1, keepdim=True).clamp(min=0)
    eps = torch.finfo(torch.float32).eps
    scale = ((largest - smallest) / float(high - low)).clamp(min=eps)
    below, above = smallest / scale, largest / scale
    zero = torch.where((low + below) + (high + above) > 0, low - below, high - above)
    return scale.double(), zero.clamp(low, high).round().to(torch.int64)


def _fake_channels(x: torch.Tensor, *given: Any) -> torch.Tensor:
    scales, zero_points, *rest = given
    return per_channel(x, scales.float(), zero_points.to(torch.int32), *rest)[0]


_NAMED: Mapping[str, Callable[..., Any]] = {
    **{f"quantize_per_tensor.{kind}": _quantize for kind in ("default", "tensor", "tensor2")},
    **{f"dequantize_per_tensor.{kind}": _dequantize for kind in ("default", "tensor", "tensor2")},
    "quantize_per_channel.default": _quantize_channels,
    "dequantize_per_channel.default": _dequantize_channels,
    "quantize_per_token.default": _quantize_tokens,
    "dequantize_per_token.default": _dequantize_tokens,
    "quantize_per_channel_group.default": _quantize_groups,
    "dequantize_per_channel_group.default": _dequantize_groups,
    "choose_qparams.tensor": partial(_choose, is_symmetric=False),
    "choose_qparams_symmetric.tensor": partial(_choose, is_symmetric=True),
    "choose_qparams_per_token.default": _choose_for_tokens,
    "choose_qparams_per_token_asymmetric.default": _choose_asymmetric,
    "_choose_qparams_per_token_asymmetric_impl.default": _choose_asymmetric,
    "fake_quant_per_channel.default": _fake_channels,
    "convert_element_type.no_fuse": torch.Tensor.to,
}


def decomposed_table() -> dict[Any, Callable[..., Any]]:
    """The decompositions of the operators that are defined."""
    found = {}
    for name, function in _NAMED.items():
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.quantized_decomposed, packet, None), overload, None)
        if operator is not None:
            found[operator] = function
    return found
