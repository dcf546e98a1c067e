"""Large results in little room: some of their elements, and sums over blocks of all of them.

The elements are those at the edges of blocks, and others drawn from a seed. Sums see what samples
miss: a block of floats has its sum, its sum with random signs, and the number of its elements that
are infinite or NaN; a block of integers has its sum with random weights, as lowest and highest.
"""

from dataclasses import dataclass

import numpy as np

from ..dtypes import Array
from ..files.kinds import Count, Positive
from ..files.schema import Mismatch
from .drawn import PERIOD
from .philox import philox

_SIGNS, _PLACES = np.int64(-1), np.int64(-2)  # seeds
_SURE = 6.5  # of 10^9 sums with random signs, one is further off than this many deviations
_SUMMED = 2.0**-40  # relative error of sums in float64
_MOST_SAMPLES = 1 << 30
_ANY = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Sampled:
    """How a result is kept: its shape, the number of samples asked for, elements of a block."""

    shape: tuple[Count, ...]
    count: Count
    block: Positive

    def __post_init__(self) -> None:
        if self.count > _MOST_SAMPLES:
            raise Mismatch(str(self.count), f"at most {_MOST_SAMPLES}").within("count")

    @property
    def size(self) -> int:
        """The number of its elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def places(self) -> Array:
        """The samples' positions in the flat result, ascending."""
        blocks = -(-self.size // self.block)
        step = max(1, 8 * blocks // max(1, self.count))
        starts = np.arange(0, blocks, step, dtype=np.int64) * self.block
        ends = np.minimum(starts + self.block, self.size) - 1
        drawn = philox(_PLACES, np.arange(self.count)).view(np.uint64) % np.uint64(self.size)
        return np.unique(np.concatenate([starts, ends, [self.size - 1], drawn.astype(np.int64)]))

    def float_sums(self, flat: Array) -> Array:
        """Sum, sum with signs, and the number of elements that are no numbers, for each block."""
        finite = np.isfinite(flat)
        numbers = np.where(finite, flat, 0.0)
        signs = np.resize(np.where(_words(len(flat)) & 1, 1.0, -1.0), flat.shape)
        return np.stack([self._sums(numbers), self._sums(numbers * signs), self._sums(~finite)], 1)

    def float_slack(self, flat: Array, bounds: Array) -> Array:
        """How far sums may be off whose elements may be off by ``bounds``."""
        sizes = _SUMMED * self._sums(np.where(np.isfinite(flat), np.abs(flat), 0.0))
        with np.errstate(over="ignore"):
            signed = _SURE * np.sqrt(self._sums(bounds * bounds))
        open_ended = np.where(np.isfinite(bounds), 0.0, np.inf)
        return np.stack([self._sums(bounds) + sizes, signed + sizes, self._sums(open_ended)], 1)

    def integer_sums(self, flat: Array) -> Array:
        """The sum with weights of each block, modulo 2^64."""
        weights = np.resize((_words(len(flat)) & 0xFF) + 1, flat.shape)
        return self._sums(flat.astype(np.int64) * weights)

    def integer_range(self, flat: Array, low: Array, high: Array) -> Array:
        """The lowest and the highest of each block's sum."""
        same = self.integer_sums(flat)
        is_open = self._sums(low != high) > 0
        is_large = self._sums((np.abs(low) >= 2**31) | (np.abs(high) >= 2**31)) > 0
        least = np.where(is_open, self.integer_sums(low), same)
        most = np.where(is_open, self.integer_sums(high), same)
        unknown = is_open & is_large
        least[unknown], most[unknown] = _ANY.min, _ANY.max
        return np.stack([least, most], 1)

    def _sums(self, flat: Array) -> Array:
        kind = np.int64 if flat.dtype.kind in "bi" else np.float64
        return np.add.reduceat(flat, np.arange(0, len(flat), self.block), dtype=kind)


def _words(count: int) -> Array:
    return philox(_SIGNS, np.arange(min(count, PERIOD)))
