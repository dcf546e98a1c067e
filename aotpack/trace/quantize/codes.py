"""Weights as codes with scales, and the torch code by which a model makes weights of them.

A row is cut into groups, each with a scale, of the weight's type. Scales are rounded before codes
are chosen. Two codes of 4 bits are one byte: the first half of a row is in the low bits, the other
in the high ones, so neighbours in memory are neighbours in a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from aotpack.ir.ops.quantization import Quantization

WIDE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types of weights that get codes."""

LARGEST = {"int8": 127.0, "int4": 7.0, "fp8": 448.0}  # of the codes
LOW_BITS = 16


@dataclass(frozen=True, slots=True)
class Quantized:
    """Codes, scales and zero points, (rows, groups), of a weight; without the latter they are 0."""

    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None = None


def group_of(quantization: Quantization, columns: int) -> int:
    return quantization.group or columns


def refusal(
    weight: torch.Tensor, quantization: Quantization, *, has_values: bool = True
) -> str | None:
    """Why a weight has no codes, or None if it has; without values, they are taken for finite."""
    if weight.dtype not in WIDE or weight.ndim != 2:
        kinds = ", ".join(str(one).removeprefix("torch.") for one in WIDE)
        shown = f"{str(weight.dtype).removeprefix('torch.')}{list(weight.shape)}"
        return f"it is {shown}, no matrix of {kinds}"
    if not weight.numel():
        return "it has no elements"
    columns = weight.shape[1]
    group = group_of(quantization, columns)
    if columns % group:
        return f"{columns} columns are no multiple of the group of {group}"
    if has_values and not torch.stack(torch.aminmax(weight.detach())).isfinite().all():
        return "it has numbers that are not finite"
    return None


def quantized(weight: torch.Tensor, quantization: Quantization) -> Quantized:
    """The codes nearest to a weight, (rows, columns), scaled by the largest of each group.

    What the codes stand for is finite as the weight is, in its type.
    """
    wide = weight.detach().contiguous()
    wide = wide if wide.dtype == torch.float64 else wide.float()
    rows, columns = wide.shape
    grouped = wide.view(rows, -1, group_of(quantization, columns))
    largest = LARGEST[quantization.kind]
    scales = (grouped.abs().amax(2) / largest).clamp(max=_largest_scale(weight.dtype, largest))
    scales = scales.to(weight.dtype)
    steps = torch.where(scales > 0, scales, 1).to(wide.dtype)[:, :, None]
    codes = (grouped / steps).clamp(-largest, largest).view(rows, columns)
    if quantization.kind == "fp8":
        return Quantized(codes.to(torch.float8_e4m3fn), scales)
    whole = codes.round().to(torch.int8)
    return Quantized(packed(whole) if quantization.kind == "int4" else whole, scales)


def _largest_scale(dtype: torch.dtype, largest: float) -> float:
    """The largest number of a type whose product with the largest code is one of the type."""
    most = torch.finfo(dtype).max
    scale = math.ldexp(1.0, math.frexp(most / largest)[1] - 1)  # a power of 2, at most the quotient
    step = scale * torch.finfo(dtype).eps
    scale += math.floor((most / largest - scale) / step) * step
    return scale - step if scale * largest > most else scale


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Codes from -8 to 7, two in a byte."""
    low, high = codes.chunk(2, dim=1)
    return (low & LOW_BITS - 1) | (high << 4)


def unpacked(codes: torch.Tensor) -> torch.Tensor:
    """The codes, a byte each.

    The low half is multiplied by 16, the high one by 1: so the sign stands where it is in a byte.
    """
    rows, half = codes.shape
    factors = LOW_BITS - (LOW_BITS - 1) * torch.arange(2, device=codes.device)
    halves = codes[:, None, :] * factors.to(torch.int8)[None, :, None]
    return (halves >> 4).view(rows, 2 * half)


def weight_of(made: Quantized, kind: str, dtype: torch.dtype) -> torch.Tensor:
    """The weight that codes and scales stand for."""
    of_kind: Callable[[torch.Tensor], torch.Tensor] = unpacked if kind == "int4" else _same
    wide, steps = of_kind(made.codes).to(dtype), made.scales.to(dtype)
    zeros = None if made.zeros is None else made.zeros.to(dtype)
    if steps.shape[1] == 1:
        return (wide if zeros is None else wide - zeros) * steps
    rows, columns = wide.shape
    grouped = wide.view(rows, steps.shape[1], -1)
    grouped = grouped if zeros is None else grouped - zeros[:, :, None]
    return (grouped * steps[:, :, None]).view(rows, columns)


def _same(codes: torch.Tensor) -> torch.Tensor:
    return codes
