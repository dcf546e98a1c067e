"""Codes of 8-bit floats, and the numbers that decide how a number is rounded to one."""

import numpy as np

from aotpack.ir.ops import float8
from aotpack.ir.ops.reference import Array

CODES = np.arange(256, dtype=np.uint8)


def numbers() -> Array:
    """All halves and bfloat16s, the middles between codes, what is next to each, random bits."""
    halves = np.arange(65536, dtype=np.uint16)
    grid = np.concatenate([float8.values(form) for form in float8.FORMATS.values()])
    grid = np.sort(grid[np.isfinite(grid)].astype(np.float64))
    edges = np.concatenate([(grid[1:] + grid[:-1]) / 2, [464, 480, 61440, 65536, 248, 256]])
    edges = np.concatenate([edges, -edges]).astype(np.float32)
    beside = [np.nextafter(edges, np.float32(end)) for end in (-np.inf, np.inf)]
    bfloat16s = (halves.astype(np.uint32) << 16).view(np.float32)
    drawn = np.random.default_rng(0).integers(0, 2**32, 1 << 17, np.uint32).view(np.float32)
    found = [halves.view(np.float16).astype(np.float32), bfloat16s, edges, *beside, drawn]
    return np.concatenate(found)[: 1 << 18]  # a tile's length is a power of two


NUMBERS = numbers()


def same_numbers(found: Array, wanted: Array) -> bool:
    """True for equal numbers with equal signs, those of zeros too, and NaN in the same places."""
    known = ~np.isnan(wanted)
    signs = np.array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
    return signs and np.array_equal(found, wanted, equal_nan=True)
