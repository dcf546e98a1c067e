"""Golden inputs drawn from a seed: the same bits wherever they are drawn.

Random bits are those of Philox. They become numbers by operations that are exact or rounded once,
so that no library of mathematics counts. A long input repeats its first numbers; their count is
prime, so that rows do not repeat each other.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..dtypes import Array, DType, float8_values
from ..files.kinds import MOST, Count, Number, Type
from ..files.schema import Mismatch
from .philox import philox

PERIOD = 1_048_573


@dataclass(frozen=True, slots=True)
class Drawn:
    """An input drawn evenly between ``low`` and ``high``; of bools the share ``high`` is true."""

    dtype: Type
    shape: tuple[Count, ...]
    seed: Count
    low: Number
    high: Number

    def __post_init__(self) -> None:
        if math.prod(self.shape) > MOST // self.dtype.itemsize:
            raise Mismatch(f"{self.dtype}{[*self.shape]}", f"{MOST} bytes").within("shape")
        if self.low > self.high:
            raise Mismatch(str(self.low), f"at most high, {self.high}").within("low")

    def stored(self) -> Array:
        """The tensor; types that numpy lacks as bits."""
        count = math.prod(self.shape)
        words = philox(np.int64(self.seed), np.arange(min(count, PERIOD))).view(np.uint64)
        return np.resize(self._numbers(words), self.shape)

    def _numbers(self, words: Array) -> Array:
        shares = (words >> np.uint64(11)) * 2.0**-53
        if self.dtype.name == "bool":
            return shares < self.high
        if self.dtype.eps == 0:
            count = np.uint64(int(self.high) - int(self.low) + 1)
            return ((words % count).astype(np.int64) + int(self.low)).astype(self.dtype.storage)
        wide = np.clip(self.low + (self.high - self.low) * shares, self.low, self.high)
        return narrowed(wide, self.dtype)


def narrowed(wide: Array, dtype: DType) -> Array:
    """float64 rounded to a float type, as it is stored."""
    if dtype.is_known_to_numpy:
        return wide.astype(dtype.storage)
    if dtype.itemsize == 1:
        values = float8_values(dtype.name)
        codes = np.flatnonzero(np.isfinite(values))
        codes = codes[np.argsort(values[codes], kind="stable")]
        place = np.searchsorted(values[codes], wide, "right") - 1
        return codes[np.maximum(place, 0)].astype(np.uint8)
    bits = wide.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
