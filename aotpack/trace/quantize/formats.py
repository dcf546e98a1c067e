"""Weights of quantised checkpoints -> codes, scales and zero points as this package stores them.

A format says how codes lie in a file: GPTQ and AWQ have (inputs, outputs) in words of 32 bits,
compressed-tensors (outputs, inputs). Here a row is an output, and codes have a sign: half of their
range is taken from codes and from zero points alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from aotpack.errors import UsageError
from aotpack.trace.quantize.codes import Quantized, packed

WORD = 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column, of 8, behind each 4 bits of a word

Tensors = Mapping[str, torch.Tensor]
"""What the checkpoint has of one layer, by the last part of the name."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the layers of a checkpoint are stored.

    ``read`` makes codes of what a layer has under ``names``; those that end in ``?`` may be absent.
    """

    name: str
    bits: int
    names: tuple[str, ...]
    read: Callable[[Tensors, "Format"], Quantized]
    offset: int = 0  # what is added to a zero point that is read
    kind: str = "int4"


def unpacked_words(words: torch.Tensor, bits: int, dim: int) -> torch.Tensor:
    """The codes in words of 32 bits along ``dim``, the lowest bits first."""
    shifts = torch.arange(0, WORD, bits, dtype=torch.int32)
    wide = (words.movedim(dim, -1)[..., None] >> shifts) & (1 << bits) - 1
    return wide.flatten(-2).movedim(-1, dim)


def read_gptq(tensors: Tensors, how: Format) -> Quantized:
    """GPTQ: words go along the inputs; input i belongs to group ``g_idx[i]``."""
    codes = unpacked_words(tensors["qweight"], how.bits, 0).T
    zeros = unpacked_words(tensors["qzeros"], how.bits, 1).T + how.offset
    scales = tensors["scales"].T
    order = tensors.get("g_idx")
    length = codes.shape[1] // max(scales.shape[1], 1)
    if order is not None and not torch.equal(
        order.long(), torch.arange(codes.shape[1]) // max(length, 1)
    ):
        raise UsageError(
            "its columns are in the order of activations (desc_act, act-order): neighbours in a "
            "row have different scales. Quantise it without desc_act, or take the float checkpoint "
            "and build with --quantize"
        )
    return signed(codes, scales, zeros & (1 << how.bits) - 1, how)


def read_awq(tensors: Tensors, how: Format) -> Quantized:
    """AWQ (GEMM): words go along the outputs, eight of them in an order of their own."""
    order = torch.tensor(AWQ_ORDER).argsort()

    def columns(words: torch.Tensor) -> torch.Tensor:
        codes = unpacked_words(words, how.bits, 1)
        eights = codes.reshape(len(codes), -1, len(AWQ_ORDER))
        return eights[:, :, order].flatten(1).T

    zeros = columns(tensors["qzeros"]) if "qzeros" in tensors else None
    return signed(columns(tensors["qweight"]), tensors["scales"].T, zeros, how)


def read_packed(tensors: Tensors, how: Format) -> Quantized:
    """compressed-tensors, pack-quantized: words go along the inputs, with padding at the end."""
    rows, columns = tensors["weight_shape"].tolist()
    codes = unpacked_words(tensors["weight_packed"], how.bits, 1)[:rows, :columns]
    zeros = tensors.get("weight_zero_point")
    if zeros is not None:
        zeros = unpacked_words(zeros, how.bits, 0)[:rows]
    return signed(codes, tensors["weight_scale"], zeros, how)


def read_plain(tensors: Tensors, how: Format) -> Quantized:
    """compressed-tensors, a number of its own for each code: int8 or 8-bit floats."""
    codes, scales = tensors["weight"], tensors["weight_scale"]
    zeros = tensors.get("weight_zero_point")
    scales = scales.reshape(1, 1).expand(len(codes), 1) if scales.numel() == 1 else scales
    zeros = zeros if zeros is not None and bool((zeros.float() != 0).any()) else None
    if zeros is not None:
        zeros = zeros.reshape(1, 1).expand(len(codes), 1) if zeros.numel() == 1 else zeros
    return Quantized(codes, scales.reshape(len(codes), -1).contiguous(), zeros)


def signed(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, how: Format
) -> Quantized:
    """Codes from 0 on, (rows, columns), with half of their range taken away."""
    half = 1 << how.bits - 1
    made = (codes - half).to(torch.int8)
    if zeros is not None:
        zeros = (zeros - half).to(torch.int8).contiguous()
        zeros = zeros if zeros.any() else None
    if how.bits == 4:
        if made.shape[1] % 2:
            raise UsageError(f"{made.shape[1]} columns do not fill bytes of two codes")
        made = packed(made)
    return Quantized(made.contiguous(), scales.contiguous(), zeros)
