"""Numbers on which operators and reductions are tried, whatever computes them."""

import itertools

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid, States
from aotpack.ir.ops.reference import Array

COMPUTE = tuple(dtype for dtype in DType if dtype.compute is dtype)
BLOCK = 1024
ROWS, COLUMNS = 4, 64
INTEGER_DIVISIONS = ("floordiv", "truncdiv", "remainder", "fmod")


def edge_values(dtype: DType) -> Array:
    """Numbers at which operators differ: signed zeros, ends of the range, ties, denormals, NaN."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.facts.numpy or "")
        small = [n for n in (-9, -7, -2, -1, 0, 1, 2, 3, 7, 31, 64) if n >= limits.min]
        ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
        return np.array(small + ends, dtype.facts.numpy)
    info = np.finfo(dtype.facts.numpy or "")
    positive = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.1, 0.7, 1e-3, 7.3, 33.0, 88.0, 1e6, 8388609.0]
    positive += [float(info.tiny), float(info.tiny) / 8, float(info.max), np.inf]
    return np.array([sign * n for n in positive for sign in (1, -1)] + [np.nan], dtype.facts.numpy)


def operands(dtype: DType) -> tuple[Array, Array, Array]:
    """Pairs of edge values, then random ones, and a condition: ``BLOCK`` of each."""
    edges = edge_values(dtype)
    pairs = list(itertools.product(edges, edges))[:BLOCK]
    random = np.random.default_rng(0)
    rest = BLOCK - len(pairs)
    x = np.concatenate([np.array([a for a, _ in pairs]), _random(random, dtype, rest)])
    y = np.concatenate([np.array([b for _, b in pairs]), _random(random, dtype, rest)])
    numpy_type = np.dtype(dtype.facts.numpy)
    return x.astype(numpy_type), y.astype(numpy_type), np.arange(BLOCK) % 3 == 0


def _random(random: np.random.Generator, dtype: DType, count: int) -> Array:
    if dtype is DType.BOOL:
        return random.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        return random.integers(1, 100, count)
    return random.normal(0, 3, count)


def elements(dtype: DType) -> Array:
    """A tile to reduce: ordinary numbers with ties, then rows with infinities and NaN."""
    random = np.random.default_rng(1)
    if dtype is DType.BOOL:
        tile = random.integers(0, 30, (ROWS, COLUMNS)) == 0
        tile[1] = True
        return tile
    if dtype.is_integer:
        return random.integers(0, 5, (ROWS, COLUMNS)).astype(dtype.facts.numpy)
    tile = np.round(random.normal(0, 2, (ROWS, COLUMNS)), 1).astype(dtype.facts.numpy)
    tile[1, 3], tile[1, 40] = np.inf, -np.inf
    tile[2, 9] = tile[2, 41] = np.nan
    tile[3] = -np.inf
    return tile


def reduced(monoid: Monoid, tile: Array) -> States:
    """The monoid over the last dimension, one element after the other."""
    positions = np.broadcast_to(np.arange(tile.shape[-1]), tile.shape)
    lifted = monoid.lift(tile, positions)
    states = tuple(part[..., 0] for part in lifted)
    for column in range(1, tile.shape[-1]):
        states = monoid.combine(states, tuple(part[..., column] for part in lifted))
    return monoid.finalise(states)
