"""In place of operators that round to codes and back: ``torch.fake_quantize_*``.

They compute as eager does on processors. Where a code would not fit int64, or is NaN, eager's
operators of channels take the smallest code; those of whole tensors clamp, and NaN alone does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

_Pair = tuple[torch.Tensor, torch.Tensor]
_CODES = 2.0**63  # floats from here on are no int64
_ATEN = torch.ops.aten


def computed_in(x: torch.Tensor) -> torch.dtype:
    """float32, or the type of wider numbers."""
    return x.dtype if x.dtype is torch.float64 else torch.float32


def along(values: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """A value for each channel, to broadcast with a tensor."""
    shape = [1] * x.dim()
    shape[axis] = -1
    return values.reshape(shape)


def per_tensor(x: torch.Tensor, scale: float, zero_point: int, low: int, high: int) -> _Pair:
    """One scale for all elements; with the mask of those that need no clamp."""
    sized = torch.full((), scale, dtype=torch.float32)
    codes = torch.round(x.to(computed_in(x)) * sized.reciprocal()) + zero_point
    held = torch.where(codes.isnan(), low, codes).clamp(low, high).float()
    return ((held - zero_point) * scale).to(x.dtype), (codes >= low) & (codes <= high)


def per_tensor_by_tensors(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    enabled: torch.Tensor,
    low: int,
    high: int,
) -> _Pair:
    """The same with a scale that is data, and a switch."""
    wide = computed_in(x)
    sized, zero = scale.reshape(()).float(), zero_point.reshape(()).float()
    codes = torch.round(x.to(wide) * sized.reciprocal()) + zero
    held = torch.where(codes.isnan(), low, codes).clamp(low, high).float()
    is_on, mask = enabled.reshape(()) != 0, (codes >= low) & (codes <= high)
    found = ((held - zero) * sized).to(x.dtype)
    return torch.where(is_on, found, x), mask | ~is_on


def per_channel(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, low: int, high: int
) -> _Pair:
    """A scale for each channel. Zero points that are floats are added before codes are rounded."""
    sized, wide = along(scale, x, axis).float(), x.to(computed_in(x))
    zero, inverse = along(zero_point, x, axis).to(wide.dtype), sized.reciprocal()
    if zero_point.is_floating_point():  # eager rounds once, after both: float64 holds the product
        shifted = wide.double() * inverse.double() + zero.double()
        codes = torch.round(shifted.to(wide.dtype))
    else:
        codes = torch.round(wide * inverse) + zero
    held = torch.where(codes.abs() < _CODES, codes, low)
    mask = (held >= low) & (held <= high) & (codes.abs() < _CODES)
    return ((held.clamp(low, high) - zero) * sized).to(x.dtype), mask


def _whole(
    input: torch.Tensor,
    scale: torch.Tensor | float,
    zero_point: torch.Tensor | int,
    quant_min: int,
    quant_max: int,
) -> torch.Tensor:
    bounds = quant_min, quant_max
    if isinstance(scale, torch.Tensor) and isinstance(zero_point, torch.Tensor):
        on = torch.ones((), dtype=torch.bool)
        return per_tensor_by_tensors(input, scale, zero_point, on, *bounds)[0]
    return per_tensor(input, float(scale), int(zero_point), *bounds)[0]


def _channels(
    input: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> torch.Tensor:
    return per_channel(input, scale, zero_point, axis, quant_min, quant_max)[0]


def _both(packet: Any, function: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    return {packet: function, packet.default: function}


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    torch.fake_quantize_per_tensor_affine: _whole,
    torch.fake_quantize_per_channel_affine: _channels,
    **_both(_ATEN.fake_quantize_per_tensor_affine, _whole),
    _ATEN.fake_quantize_per_tensor_affine.tensor_qparams: _whole,
    **_both(_ATEN.fake_quantize_per_channel_affine, _channels),
    **_both(_ATEN.fake_quantize_per_tensor_affine_cachemask, per_tensor),
    **_both(_ATEN.fake_quantize_per_channel_affine_cachemask, per_channel),
    **_both(_ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams, per_tensor_by_tensors),
}
"""By the function or operator that is called: torch.export knows no shapes of their results."""
