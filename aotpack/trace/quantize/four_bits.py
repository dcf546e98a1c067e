"""NVFP4 weights of torchao as products read them: codes in halves of a row, scales in rows.

A code of 4 bits has a sign, two bits of exponent and one of mantissa. Moved by two bits they are
those of a ``float8_e4m3fn`` that is smaller by ``2**6``. The first half of a row is in the low bits
of its bytes, the other in the high ones, so neighbours in memory are neighbours in a row.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

_SIGN, _REST, _SMALLER = 128, 112, 2.0**6
_BLOCK = 16  # codes that share a scale


def repacked(
    tensor: Any,
) -> tuple[dict[str, torch.Tensor], Callable[[Mapping[str, torch.Tensor]], torch.Tensor]] | None:
    """The parts of such a weight and what makes it of them; None for others.

    What they make is compared with what torchao makes.
    """
    if type(tensor).__name__ != "NVFP4Tensor" or tensor.dim() != 2 or tensor.is_meta:
        return None
    rows, columns = tensor.shape
    if columns % (2 * _BLOCK) or tensor.block_size != _BLOCK or not tensor.qdata.is_contiguous():
        return None
    scales, dtype = tensor.scale, tensor.orig_dtype
    if tensor.is_swizzled_scales:
        scales = _in_rows(scales, rows, columns // _BLOCK)
    parts = {"_codes": _in_halves(tensor.qdata), "_scales": scales.reshape(rows, -1)}
    if tensor.per_tensor_scale is not None:
        parts["_scale"] = tensor.per_tensor_scale.detach()

    def whole(given: Mapping[str, torch.Tensor]) -> torch.Tensor:
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
