"""Chooses the sizes at which kernels are timed.

The time of a call is estimated from the bytes and flops of its launches.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..checks.guards import sizes_of
from ..devices.device import is_host
from ..model import Method
from ..plan import Launch, first
from ..safetensors import Stored
from ..tensors import SizeRange

Sizes = dict[str, int]


class Limits(NamedTuple):
    """The most bytes and flops of one call."""

    moved: float
    flops: float


_GPU = Limits(16e9, 10e12)  # some ten milliseconds of a large one
_HOST = Limits(0.25e9, 10e9)  # a fraction of a second


def main_sizes(model: Method, golden: Mapping[str, Stored]) -> list[Sizes]:
    """The example's sizes, and the largest of their ranges, halved until a call is short."""
    signature = model.signature
    example = sizes_of(signature, [golden[f"inputs/{t.name}"].shape for t in signature.inputs])
    for halvings in range(64):
        largest = {size.name: _rounded(size.high >> halvings, size) for size in signature.sizes}
        if is_short(model, largest):
            return [example] if largest == example else [example, largest]
    return [example]


def single_sizes(model: Method, example: Sizes) -> Iterator[Sizes]:
    """The example's sizes with one size replaced: by powers of two and the ends of its range."""
    for size in model.signature.sizes:
        powers = (1 << n for n in range(size.high.bit_length()))
        for value in dict.fromkeys(_rounded(n, size) for n in (size.low, *powers, size.high)):
            sizes = example | {size.name: value}
            if is_short(model, sizes):
                yield sizes


def is_short(model: Method, sizes: Sizes) -> bool:
    """True for a call within the limits of its device."""
    limits = _HOST if is_host(model.device) else _GPU
    moved = flops = 0
    steps = model.plan_with(tuple(sizes.values()), first).steps()
    for launch in (step for _, step in steps if isinstance(step, Launch)):
        kernel = model.kernels[launch.kernel].kernel
        moved += kernel.moved.evaluate(sizes)
        flops += kernel.flops.evaluate(sizes)
    return moved <= limits.moved and flops <= limits.flops


def _rounded(value: int, size: SizeRange) -> int:
    """The largest admitted value up to ``value``, or the least of the range."""
    least = -(-size.low // size.multiple) * size.multiple
    return max(least, min(value, size.high) // size.multiple * size.multiple)
