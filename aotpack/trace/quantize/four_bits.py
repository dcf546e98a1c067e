"""Weights of torchao with codes of 4 bits as products read them: codes in halves of a row.

The first half of a row is in the low bits of its bytes, the other in the high ones, so neighbours
in memory are neighbours in a row. Scales lie in rows too.

A code of NVFP4 has a sign, two bits of exponent and one of mantissa. Moved by two bits they are
those of a ``float8_e4m3fn`` that is smaller by ``2**6``. Integers that torchao stores in a byte
each become those of ``--quantize int4``.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from aotpack.trace.quantize.codes import Quantized, packed, unpacked, weight_of

Parts: TypeAlias = Mapping[str, torch.Tensor]
"""Plain tensors by the name that each has behind the weight's."""

Flattened: TypeAlias = tuple[Parts, Callable[[Parts], torch.Tensor]]
"""The parts of a weight, and what makes it of them."""

_SIGN, _REST, _SMALLER = 128, 112, 2.0**6
_BLOCK = 16  # codes that share a scale
_NARROW = [getattr(torch, f"int{bits}") for bits in range(1, 5)]


def repacked(tensor: Any) -> Flattened | None:
    """The parts of such a weight and what makes it of them; None for others.

    What they make is compared with what torchao makes.
    """
    how = {"NVFP4Tensor": _floats, "IntxUnpackedToInt8Tensor": _integers}
    make = how.get(type(tensor).__name__)
    return None if make is None or tensor.dim() != 2 or tensor.is_meta else make(tensor)


def _integers(tensor: Any) -> Flattened | None:
    """Of codes in bytes; an object again where it makes codes of the other factor too."""
    columns, codes, scales = tensor.shape[1], tensor.qdata, tensor.scale
    if tensor.target_dtype not in _NARROW or columns % 2 or tensor.block_size[0] != 1:
        return None
    parts = {"_codes": packed(codes), "_scales": scales.detach()}
    if not torch.equal(unpacked(parts["_codes"]), codes):
        return None
    if tensor.zero_point.any():
        parts["_zeros"] = tensor.zero_point.detach()
    dtype, kind, (_, context) = tensor.dtype, type(tensor), tensor.__tensor_flatten__()

    def weight(given: Parts) -> torch.Tensor:
        return weight_of(
            Quantized(given["_codes"], given["_scales"], given.get("_zeros")), "int4", dtype
        )

    def whole(given: Parts) -> torch.Tensor:
        held = {"qdata": unpacked(given["_codes"]), "scale": given["_scales"]}
        zeros = given.get("_zeros")
        no_zeros = torch.zeros_like(given["_scales"], dtype=torch.int8) if zeros is None else zeros
        made: torch.Tensor = kind.__tensor_unflatten__(
            {**held, "zero_point": no_zeros}, context, None, None
        )
        return made

    if tensor.activation_quantization is not None:
        return parts, whole
    return (parts, weight) if torch.equal(weight(parts), tensor.dequantize()) else None


def _floats(tensor: Any) -> Flattened | None:
    rows, columns = tensor.shape
    if columns % (2 * _BLOCK) or tensor.block_size != _BLOCK or not tensor.qdata.is_contiguous():
        return None
    scales, dtype = tensor.scale, tensor.orig_dtype
    if tensor.is_swizzled_scales:
        scales = _in_rows(scales, rows, columns // _BLOCK)
    parts = {"_codes": _in_halves(tensor.qdata), "_scales": scales.reshape(rows, -1)}
    if tensor.per_tensor_scale is not None:
        parts["_scale"] = tensor.per_tensor_scale.detach()

    def whole(given: Parts) -> torch.Tensor:
        return _weight(given["_codes"], given["_scales"], given.get("_scale")).to(dtype)

    return (parts, whole) if torch.equal(whole(parts), tensor.dequantize()) else None


def _in_halves(codes: torch.Tensor) -> torch.Tensor:
    """Bytes of codes that are neighbours -> bytes of codes that are half a row apart."""
    each = torch.stack([codes & 15, codes >> 4], dim=-1).flatten(1)
    low, high = each.chunk(2, dim=1)
    return low | high << 4


def _in_rows(scales: torch.Tensor, rows: int, groups: int) -> torch.Tensor:
    """Scales in tiles of 128 rows by 4 groups, each as 32 x 4 x 4 -> a row for each row."""
    down, across = -(-rows // 128), -(-groups // 4)
    tiles = scales.view(torch.uint8).reshape(down, across, 32, 4, 4).transpose(2, 3)
    flat = tiles.reshape(down, across, 128, 4).transpose(1, 2).reshape(128 * down, 4 * across)
    return flat[:rows, :groups].contiguous().view(scales.dtype)


def _weight(codes: torch.Tensor, scales: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    rows, half = codes.shape
    factors = 16 - 15 * torch.arange(2, device=codes.device)
    high = (codes[:, None, :] * factors.to(torch.uint8)[None, :, None]).view(rows, 2 * half)
    bits = (high & _SIGN) | ((high & _REST) >> 2)
    values = bits.view(torch.float8_e4m3fn).float().view(rows, -1, _BLOCK)
    factor = _SMALLER if scale is None else scale * _SMALLER
    return (values * (scales.float() * factor)[:, :, None]).view(rows, 2 * half)
