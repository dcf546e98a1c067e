"""8-bit floats: their formats, what each code means, and the nearest code of a number.

Codes are bytes, values float32: buffers of the IR hold the codes, and two operators for each format
lead from one to the other, in integer arithmetic, so that every target computes the same bits.
Rounding is torch's: to nearest even; what is too large becomes the largest number of e4m3fn,
infinity in e5m2, NaN in the fnuz formats (which have neither infinities nor -0). The formats are
those of "FP8 Formats for Deep Learning" (arXiv 2209.05433) and "8-bit Numerical Formats for Deep
Neural Networks" (arXiv 2206.02915, the fnuz ones).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aotpack.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of the mantissa, bias of the exponent; the code of what is too large, and of NaN."""

    mantissa: int
    bias: int
    excess: int
    nan: int

    @property
    def is_unsigned_zero(self) -> bool:
        """True for the fnuz formats: the code that would be -0 is their only NaN."""
        return self.nan == 0x80

    @property
    def shift(self) -> int:
        """The bits of a float32 mantissa that are rounded away."""
        return 23 - self.mantissa

    @property
    def rebias(self) -> int:
        """The difference of the exponents, where float32 has its exponent."""
        return (127 - self.bias) << 23

    @property
    def smallest(self) -> int:
        """The exponent of the smallest positive number."""
        return 1 - self.bias - self.mantissa


FORMATS: Mapping[DType, Format] = {
    DType.FLOAT8_E4M3FN: Format(3, 7, 0x7E, 0x7F),
    DType.FLOAT8_E5M2: Format(2, 15, 0x7C, 0x7F),
    DType.FLOAT8_E4M3FNUZ: Format(3, 8, 0x80, 0x80),
    DType.FLOAT8_E5M2FNUZ: Format(2, 16, 0x80, 0x80),
}


def values(form: Format) -> npt.NDArray[np.float32]:
    """The number behind each of the 256 codes; the sign of NaN is the code's."""
    code = np.arange(256)
    exponent, mantissa = (code & 0x7F) >> form.mantissa, code & ((1 << form.mantissa) - 1)
    normal = np.ldexp((1 << form.mantissa) + mantissa, form.smallest - 1 + exponent)
    size = np.where(exponent == 0, np.ldexp(mantissa, form.smallest), normal)
    if form.is_unsigned_zero:
        size[0x80] = np.nan
    elif form.excess < form.nan - 1:  # e5m2: infinity and three NaNs
        size[[form.excess, form.excess | 0x80]] = np.inf
        size[[code for code in range(256) if code & 0x7F > form.excess]] = np.nan
    else:
        size[[form.nan, form.nan | 0x80]] = np.nan
    signed = np.copysign(size, np.where(code < 0x80, 1, -1))
    return np.asarray(signed, np.float32)


def decode(codes: npt.NDArray[Any], form: Format) -> npt.NDArray[Any]:
    """The numbers of some codes, as float32."""
    return np.asarray(values(form)[codes])


def encode(numbers: npt.NDArray[Any], form: Format) -> npt.NDArray[Any]:
    """The codes of the nearest numbers: of two, the one with the even code."""
    sizes = values(form)[: form.excess + (form.excess == 0x7E)].astype(np.float64)
    sizes = sizes[np.isfinite(sizes)]
    beyond = 2 * sizes[-1] - sizes[-2] if form.excess != 0x7E else np.inf
    middles = (sizes + np.append(sizes[1:], beyond)) / 2
    with np.errstate(invalid="ignore"):  # a signalling NaN is no matter
        size = np.abs(np.asarray(numbers, np.float32).astype(np.float64))
    below, above = np.searchsorted(middles, size, "left"), np.searchsorted(middles, size, "right")
    code = np.minimum(np.where(below % 2 == 0, below, above), form.excess)
    code = np.where(np.isnan(size), form.nan, code)
    signed = np.signbit(numbers) & ((code != 0) | (not form.is_unsigned_zero))
    return np.asarray(code | (signed * 0x80)).astype(np.uint8)


_BITS = "{0}.to(tl.int32, bitcast=True)"
_SIZE = f"({_BITS} & 0x7FFFFFFF)"


def triton_encode(form: Format) -> str:
    """Triton text: a float32 to its code.

    A number below the normal ones is added to one whose last place is the smallest number's: the
    sum's last bits are the code, rounded. Others are rounded where the mantissa ends.
    """
    raise_by = 23 + form.smallest
    tiny = (
        f"(tl.abs({{0}}) + {2.0**raise_by}).to(tl.int32, bitcast=True) - {(127 + raise_by) << 23}"
    )
    half = (1 << (form.shift - 1)) - 1
    odd = f"(({_SIZE} >> {form.shift}) & 1)"
    normal = f"({_SIZE} - {form.rebias - half} + {odd}) >> {form.shift}"
    code = f"tl.where({_SIZE} < {form.rebias + (1 << 23)}, {tiny}, {normal})"
    code = f"tl.minimum({code}, {form.excess})"
    sign = f"(({_BITS} >> 24) & 0x80)"
    if form.is_unsigned_zero:
        return f"({code} | tl.where({code} == 0, 0, {sign})).to(tl.uint8)"
    return f"(tl.where({{0}} != {{0}}, {form.nan}, {code}) | {sign}).to(tl.uint8)"


def triton_decode(form: Format) -> str:
    """Triton text: a code to its number, a float32 of the code's bits times a power of two."""
    code = "{0}.to(tl.int32)"
    size = f"(({code} & 0x7F) << {form.shift}).to(tl.float32, bitcast=True)"
    bits = f"({size} * {2.0 ** (127 - form.bias)}).to(tl.int32, bitcast=True)"
    if form.is_unsigned_zero:
        special = f"{code} == 0x80"
    else:
        least = form.nan if form.excess == form.nan - 1 else form.excess
        special = f"({code} & 0x7F) >= {least}"
    if form.excess == 0x7C:  # all exponent bits: float32's, with the mantissa
        bits = f"({bits} | tl.where({special}, 0x7F800000, 0))"
    else:
        bits = f"tl.where({special}, 0x7FC00000, {bits})"
    return f"({bits} | (({code} & 0x80) << 24)).to(tl.float32, bitcast=True)"
