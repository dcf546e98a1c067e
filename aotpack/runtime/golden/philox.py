"""Random bits as a pure function: Philox 4x32-10 (Salmon et al. 2011), keyed by a seed.

Equal seeds and counters give equal bits in numpy and on every target, so random numbers depend only
on the seed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(seed: npt.ArrayLike, counter: npt.ArrayLike) -> npt.NDArray[Any]:
    """int64: the first two words (the first one low) for int64 keys and the counters' low half."""
    key, place = (np.asarray(part, np.int64).view(np.uint64) for part in (seed, counter))
    k0, k1 = key & _LOW, key >> _HALF
    words = [place & _LOW, place >> _HALF, np.zeros_like(place), np.zeros_like(place)]
    for _ in range(_ROUNDS):
        a, b = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [(b >> _HALF) ^ words[1] ^ k0, b & _LOW, (a >> _HALF) ^ words[3] ^ k1, a & _LOW]
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return np.asarray(words[0] | (words[1] << _HALF)).view(np.int64)
