"""Random bits against the published known answers, and as the C and Triton tests draw them."""

import numpy as np
import pytest

from aotpack.runtime.golden.philox import philox


@pytest.mark.row("C:E24")
@pytest.mark.parametrize(
    ("seed", "counter", "words"),
    [(0, 0, (0x6627E8D5, 0xE169C58D))],
)
def test_known_answers(seed: int, counter: int, words: tuple[int, int]) -> None:
    (found,) = philox(np.array([seed]), np.array([counter])).view(np.uint64).tolist()
    assert (found & 0xFFFFFFFF, found >> 32) == words


@pytest.mark.row("C:def8")
def test_every_bit_of_seed_and_counter_counts() -> None:
    bits = np.int64(1) << np.arange(64, dtype=np.int64)
    zero = np.zeros(64, np.int64)
    drawn = np.concatenate([philox(bits, zero), philox(zero, bits), philox(zero[:1], zero[:1])])
    assert len(np.unique(drawn)) == 129


def test_bits_are_even() -> None:
    drawn = philox(np.int64(7), np.arange(4096)).view(np.uint64)
    share = [(drawn >> np.uint64(k) & np.uint64(1)).mean() for k in range(64)]
    assert max(abs(part - 0.5) for part in share) < 0.04
