"""Golden results as they are kept: whole, or some of their elements and sums over blocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from aotpack.ir.dtypes import DType
from aotpack.runtime.dtypes import DTYPES, widen
from aotpack.runtime.golden.samples import Sampled
from aotpack.stages import Recorded, SampledResult
from aotpack.trace.golden.bounds import Runs, Seen, float_bounds, in_range, ranges
from aotpack.trace.weights import bytes_of, dtype_of

_SAMPLE, _BLOCK = 6, 48  # bytes that a sample and a block take
_SMALLEST_BLOCK = 64
_FEWEST = 16
_BOUND = DTYPES["bfloat16"]


@dataclass(slots=True)
class Results:
    """What is recorded of all results, in order."""

    values: list[Recorded] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    limits: list[Recorded] = field(default_factory=list)
    sampled: list[SampledResult] = field(default_factory=list)


def kept_results(
    keys: Sequence[str], runs: Sequence[Runs], eager: Sequence[torch.Tensor], available: float
) -> Results:
    """The results in ``available`` bytes; keys are outputs/NAME and updates/NAME."""
    kept = Results()
    shares = _shares([_whole_bytes(one) for one in eager], available)
    for key, one, result, share in zip(keys, runs, eager, shares, strict=True):
        result = result.detach().cpu()
        shape = tuple(result.shape)
        sampled = None if share == math.inf else _sampled(shape, share)
        if sampled:
            kept.sampled.append(SampledResult(key, shape, sampled.count, sampled.block))
        add = _add_floats if result.is_floating_point() else _add_integers
        add(kept, key, one.seen(), result, sampled)
    return kept


def _whole_bytes(result: torch.Tensor) -> int:
    """What a result takes as a whole: floats as float32 or float64, and a bound of two bytes."""
    is_float = result.is_floating_point()
    return result.numel() * (
        max(4, result.element_size()) + 2 if is_float else result.element_size()
    )


def _shares(sizes: Sequence[int], available: float) -> list[float]:
    """The bytes of each result: infinity for one kept whole; the others share what is left."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    shares = [0.0] * len(sizes)
    for place, number in enumerate(order):
        if sizes[number] <= available / (len(order) - place):
            available -= sizes[number]
            shares[number] = math.inf
        else:
            shares[number] = available / (len(order) - place)
            available -= shares[number]
    return shares


def _sampled(shape: tuple[int, ...], share: float) -> Sampled:
    size = math.prod(shape)
    count = max(_FEWEST, int(share / 3 / _SAMPLE))
    block = _SMALLEST_BLOCK
    while -(-size // block) * _BLOCK > share / 2:
        if block >= size:
            break
        block *= 2
    return Sampled(shape, count, block)


def _add_floats(
    kept: Results, key: str, seen: Seen, eager: torch.Tensor, sampled: Sampled | None
) -> None:
    name, dtype = key.partition("/")[2], dtype_of(eager.dtype, key)
    seen.exact = in_range(seen.exact, eager)
    off = seen.errors(eager)
    kept.errors.append(float(off.max()) if off.numel() else 0.0)
    bounds, exact = float_bounds(eager, seen), seen.exact
    shape = tuple(eager.shape)
    if sampled:
        flat, own = exact.reshape(-1).numpy(), widen(bounds, _BOUND).astype(np.float64)
        kept.limits.append(_array(f"sums/{key}", DType.FLOAT64, sampled.float_sums(flat)))
        kept.limits.append(_array(f"slack/{key}", DType.FLOAT64, sampled.float_slack(flat, own)))
        places = sampled.places()
        shape, bounds, exact = places.shape, bounds[places], torch.from_numpy(flat[places])
    kept.limits.append((f"bounds/{key}", DType.BFLOAT16, shape, bounds.tobytes()))
    wide = torch.float64 if dtype is DType.FLOAT64 else torch.float32
    kept.values.append(_tensor(name, exact.to(wide)))


def _add_integers(
    kept: Results, key: str, seen: Seen, eager: torch.Tensor, sampled: Sampled | None
) -> None:
    kept.errors.append(float(torch.count_nonzero(eager != seen.exact)))
    rows, exact = ranges(eager, seen), seen.exact.to(eager.dtype)
    own = eager.reshape(-1)[rows[:, 0]]
    if sampled:
        flat = exact.reshape(-1).numpy()
        low, high = flat.astype(np.int64), flat.astype(np.int64)
        low[rows[:, 0]], high[rows[:, 0]] = rows[:, 1], rows[:, 2]
        sums = sampled.integer_range(flat, low, high)
        kept.limits.append(_array(f"sums/{key}", DType.INT64, sums))
        places = sampled.places()
        exact = torch.from_numpy(flat[places])
        found = np.flatnonzero(np.isin(places, rows[:, 0]))
        own = eager.reshape(-1)[places[found]]
        rows = np.stack([found, low[places[found]], high[places[found]]], 1)
    if len(rows):
        kept.limits.append(_array(f"ranges/{key}", DType.INT64, rows))
        kept.limits.append(_tensor(f"eager/{key}", own))
    kept.values.append(_tensor(key.partition("/")[2], exact))


def _tensor(name: str, tensor: torch.Tensor) -> Recorded:
    return name, dtype_of(tensor.dtype, name), tuple(tensor.shape), bytes(bytes_of(tensor))


def _array(name: str, dtype: DType, array: npt.NDArray[np.generic]) -> Recorded:
    return name, dtype, array.shape, array.tobytes()
