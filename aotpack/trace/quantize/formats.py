"""Weights of quantised checkpoints -> codes, scales and zero points as this package stores them.

A format says how codes lie in a file: GPTQ and AWQ have (inputs, outputs) in words of 32 bits,
compressed-tensors (outputs, inputs). Here a row is an output, and codes have a sign: half of their
range is taken from codes and from zero points alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from aotpack.errors import UsageError
from aotpack.trace.quantize.codes import Quantized, packed

WORD = 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column, of 8, behind each 4 bits of a word

Tensors = Mapping[str, torch.Tensor]
"""What the checkpoint has of one layer, by the last part of the name."""

Kinds: TypeAlias = tuple[torch.dtype, ...]

_WORDS = (torch.int32,)
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CODES = {"int8": (torch.int8,), "fp8": (torch.float8_e4m3fn,)}
_ORDERED = (
    "its columns are in the order of activations (desc_act, act-order): neighbours in a row have "
    "different scales. Quantise it without desc_act, or take the float checkpoint and build with "
    "--quantize"
)


@dataclass(frozen=True, slots=True)
class Size:
    """Of the weight of a layer: its outputs and its inputs."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return f"a layer of {self.columns} inputs and {self.rows} outputs"


@dataclass(frozen=True, slots=True)
class Format:
    """How the layers of a checkpoint are stored.

    ``read`` makes codes of what a layer has under ``names``; those that end in ``?`` may be absent.
    ``groups`` are the numbers of neighbours in a row that share a scale, -1 for all of them.
    Columns may be in another order if it ``is_ordered``; zero points are there if it ``has_zeros``.
    """

    name: str
    bits: int
    names: tuple[str, ...]
    read: Callable[[Tensors, "Format", Size], Quantized]
    groups: tuple[int, ...]
    kind: str = "int4"
    offset: int = 0  # what is added to a zero point that is read
    is_ordered: bool = False
    has_zeros: bool = False

    def words(self, count: int) -> int:
        """The words of 32 bits that codes take."""
        return -(-count * self.bits // WORD)

    def lengths(self, columns: int) -> list[int]:
        """The sizes of groups that a row may have; UsageError if none divides it."""
        found = [columns if one < 0 else min(one, columns) for one in self.groups]
        even = [one for one in found if columns % one == 0]
        if not even:
            shown = " or ".join(map(str, self.groups))
            raise UsageError(
                f"its {columns} inputs are no multiple of the group_size {shown}; groups that "
                "divide a row are accepted"
            )
        return even


def unpacked_words(words: torch.Tensor, bits: int, dim: int) -> torch.Tensor:
    """The codes in words of 32 bits along ``dim``, the lowest bits first."""
    shifts = torch.arange(0, WORD, bits, dtype=torch.int32)
    wide = (words.movedim(dim, -1)[..., None] >> shifts) & (1 << bits) - 1
    return wide.flatten(-2).movedim(-1, dim)


def read_gptq(tensors: Tensors, how: Format, size: Size) -> Quantized:
    """GPTQ: words go along the inputs; input i belongs to group ``g_idx[i]``."""
    rows, columns = size.rows, size.columns
    length = how.lengths(columns)[0]
    groups = columns // length
    words = _checked(tensors, "qweight", _WORDS, size, (how.words(columns), rows))
    scales = _checked(tensors, "scales", _FLOATS, size, (groups, rows))
    zeros = _checked(tensors, "qzeros", _WORDS, size, (groups, how.words(rows)))
    if how.is_ordered and groups > 1 and "g_idx" not in tensors:
        raise UsageError(f"{_ORDERED} (no g_idx says which)")
    _check_order(tensors, "g_idx", size, length)
    codes = unpacked_words(words, how.bits, 0)[:columns].T
    points = unpacked_words(zeros, how.bits, 1)[:, :rows].T + how.offset
    return signed(codes, scales.T, points & (1 << how.bits) - 1, how)


def read_awq(tensors: Tensors, how: Format, size: Size) -> Quantized:
    """AWQ (GEMM): words go along the outputs, eight of them in an order of their own."""
    rows, columns = size.rows, size.columns
    groups = columns // how.lengths(columns)[0]
    order = torch.tensor(AWQ_ORDER).argsort()

    def unpacked(name: str, count: int) -> torch.Tensor:
        words = _checked(tensors, name, _WORDS, size, (count, how.words(rows)))
        eights = unpacked_words(words, how.bits, 1).reshape(count, -1, len(AWQ_ORDER))
        return eights[:, :, order].flatten(1)[:, :rows].T

    scales = _checked(tensors, "scales", _FLOATS, size, (groups, rows))
    zeros = unpacked("qzeros", groups) if _has_zeros(tensors, "qzeros", how) else None
    return signed(unpacked("qweight", columns), scales.T, zeros, how)


def read_packed(tensors: Tensors, how: Format, size: Size) -> Quantized:
    """compressed-tensors, pack-quantized: words go along the inputs, with padding at the end."""
    rows, columns = size.rows, size.columns
    shape = _checked(tensors, "weight_shape", _WHOLE, size, (2,))
    if shape.tolist() != [rows, columns]:
        raise UsageError(f"weight_shape is {shape.tolist()}; {[rows, columns]} is its layer's")
    words = _checked(tensors, "weight_packed", _WORDS, size, (rows, how.words(columns)))
    scales = _per_group(tensors, "weight_scale", _FLOATS, size, how.lengths(columns))
    groups, zeros = scales.shape[1], None
    _check_order(tensors, "weight_g_idx", size, columns // groups)
    if _has_zeros(tensors, "weight_zero_point", how):
        own = (how.words(rows), groups)
        zeros = _checked(tensors, "weight_zero_point", _WORDS, size, own)
        zeros = unpacked_words(zeros, how.bits, 0)[:rows]
    return signed(unpacked_words(words, how.bits, 1)[:, :columns], scales, zeros, how)


def read_plain(tensors: Tensors, how: Format, size: Size) -> Quantized:
    """compressed-tensors, a number of its own for each code: int8 or 8-bit floats."""
    codes = _checked(tensors, "weight", _CODES[how.kind], size, (size.rows, size.columns))
    scales = _per_group(tensors, "weight_scale", _FLOATS, size, how.lengths(size.columns))
    length, zeros = size.columns // scales.shape[1], None
    _check_order(tensors, "weight_g_idx", size, length)
    if _has_zeros(tensors, "weight_zero_point", how):
        kinds = (torch.int8, torch.float8_e4m3fn)
        zeros = _per_group(tensors, "weight_zero_point", kinds, size, [length])
    has_some = zeros is not None and bool((zeros.float() != 0).any())
    return Quantized(codes, scales, zeros if has_some else None)


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


def _checked(
    tensors: Tensors, name: str, kinds: Kinds, size: Size, *shapes: tuple[int, ...]
) -> torch.Tensor:
    """What a layer has under a name, of one of the types and shapes."""
    found = tensors[name]
    if found.dtype not in kinds or tuple(found.shape) not in shapes:
        types = " or ".join(map(_shown, kinds))
        accepted = " or ".join(f"{list(shape)}" for shape in dict.fromkeys(shapes))
        raise UsageError(
            f"{name} is {_shown(found.dtype)}{list(found.shape)}; {types} of shape {accepted} is "
            f"accepted for {size}"
        )
    return found


def _per_group(
    tensors: Tensors, name: str, kinds: Kinds, size: Size, lengths: Sequence[int]
) -> torch.Tensor:
    """A number for each group, (rows, groups); one for each row, or for all, has fewer sizes."""
    shapes = [(size.rows, size.columns // length) for length in lengths]
    brief = [(size.rows,), (1, 1), (1,), ()] if (size.rows, 1) in shapes else []
    found = _checked(tensors, name, kinds, size, *shapes, *brief)
    if tuple(found.shape) not in shapes:
        found = found.reshape(-1, 1).expand(size.rows, 1)
    return found.contiguous()


def _has_zeros(tensors: Tensors, name: str, how: Format) -> bool:
    if how.has_zeros and name not in tensors:
        raise UsageError(f"it has no {name}, and its configuration says that it has zero points")
    return name in tensors


def _check_order(tensors: Tensors, name: str, size: Size, length: int) -> None:
    """Refuse columns whose groups are not one after the other; -1 stands for no order."""
    if name not in tensors:
        return
    order = _checked(tensors, name, _WHOLE, size, (size.columns,)).long()
    plain = torch.arange(size.columns) // length
    if not torch.equal(order, plain) and not (order == -1).all():
        raise UsageError(_ORDERED)


def _shown(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
