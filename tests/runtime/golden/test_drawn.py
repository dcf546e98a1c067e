"""Inputs drawn from a seed: the same bits everywhere, of the type, inside of the ends."""

import hashlib

import numpy as np
import pytest

from aotpack.runtime.dtypes import DTYPES, widen
from aotpack.runtime.golden.drawn import PERIOD, Drawn, narrowed


@pytest.mark.parametrize(
    ("dtype", "low", "high", "digest"),
    [
        ("float32", -1.5, 1.5, "ae1a9407"),
        ("float64", 0.0, 1e300, "f5eb368b"),
        ("bfloat16", -3.0, 3.0, "8f92b954"),
        ("float16", 0.1, 0.2, "7b66a1c7"),
        ("float8_e4m3fn", -2.0, 2.0, "374b02ff"),
        ("int64", -5.0, 7.0, "f830c0da"),
        ("uint8", 0.0, 255.0, "8d54efd3"),
        ("bool", 0.0, 0.25, "fc6c571c"),
    ],
)
def test_the_bits_of_a_seed_are_known(dtype: str, low: float, high: float, digest: str) -> None:
    stored = Drawn(DTYPES[dtype], (50, 40), 3, low, high).stored()
    assert stored.shape == (50, 40) and stored.dtype.name == DTYPES[dtype].storage
    assert hashlib.sha256(stored.tobytes()).hexdigest()[:8] == digest


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e5m2", "int32"])
def test_numbers_fill_the_space_between_their_ends(dtype: str) -> None:
    drawn = Drawn(DTYPES[dtype], (4000,), 1, -4.0, 12.0)
    numbers = widen(drawn.stored(), DTYPES[dtype]).astype(np.float64)
    assert numbers.min() >= -4 and numbers.max() <= 12
    assert abs(numbers.mean() - 4) < 0.5 and numbers.std() > 4
    assert set(np.unique(numbers)) == set(range(-4, 13)) or dtype != "int32"


def test_bools_have_their_share() -> None:
    drawn = Drawn(DTYPES["bool"], (4000,), 1, 0.0, 0.25).stored()
    assert 0.22 < drawn.mean() < 0.28
    assert not Drawn(DTYPES["bool"], (100,), 1, 0.0, 0.0).stored().any()


def test_seeds_differ_and_long_inputs_repeat() -> None:
    first, other = (Drawn(DTYPES["float32"], (100,), seed, 0.0, 1.0).stored() for seed in (1, 2))
    assert not np.isin(first, other).any()
    long = Drawn(DTYPES["uint8"], (PERIOD + 5,), 1, 0.0, 255.0).stored()
    assert np.array_equal(long[PERIOD:], long[:5]) and not np.array_equal(long[:5], long[5:10])


def test_narrowing_rounds_to_the_nearest() -> None:
    wide = np.array([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -1.0 - 2**-9])
    bits = narrowed(wide, DTYPES["bfloat16"])
    assert widen(bits, DTYPES["bfloat16"]).tolist() == [1.0, 1.0, 1.015625, -1.0]
