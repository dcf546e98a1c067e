"""8-bit floats: formats, the value of each code, and the nearest code of a number.

Buffers of the IR hold codes (bytes); values are float32. Two operators for each format convert
them, in integer arithmetic, so every target computes the same bits. Rounding is torch's: to nearest
even; overflow gives the largest number of e4m3fn, infinity in e5m2, NaN in the fnuz formats (which
have neither infinities nor -0). Sources: "FP8 Formats for Deep Learning" (arXiv 2209.05433), "8-bit
Numerical Formats for Deep Neural Networks" (arXiv 2206.02915, the fnuz ones).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aotpack.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of the mantissa, bias of the exponent; the codes of overflow and of NaN."""

    mantissa: int
    bias: int
    excess: int
    nan: int

    @property
    def is_unsigned_zero(self) -> bool:
        """True for the fnuz formats: the code that would be -0 is their only NaN."""
        return self.nan == 0x80

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
    """The value of each of the 256 codes; NaN has the sign of its code."""
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
    """The values of codes, as float32."""
    return np.asarray(values(form)[codes])


def encode(numbers: npt.NDArray[Any], form: Format) -> npt.NDArray[Any]:
    """The codes of the nearest values; of two, the even code."""
    sizes = values(form)[: form.excess + (form.excess == 0x7E)].astype(np.float64)
    sizes = sizes[np.isfinite(sizes)]
    beyond = 2 * sizes[-1] - sizes[-2] if form.excess != 0x7E else np.inf
    middles = (sizes + np.append(sizes[1:], beyond)) / 2
    with np.errstate(invalid="ignore"):  # signalling NaN is legal
        size = np.abs(np.asarray(numbers, np.float32).astype(np.float64))
    below, above = np.searchsorted(middles, size, "left"), np.searchsorted(middles, size, "right")
    code = np.minimum(np.where(below % 2 == 0, below, above), form.excess)
    code = np.where(np.isnan(size), form.nan, code)
    signed = np.signbit(numbers) & ((code != 0) | (not form.is_unsigned_zero))
    return np.asarray(code | (signed * 0x80)).astype(np.uint8)
