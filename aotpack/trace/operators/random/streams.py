"""Streams of random numbers from a counter-based generator (Philox), whose seed is an input.

The n-th draw of a call takes the n-th stream of Philox bits (``runtime/golden/philox.py``),
whatever the sizes are. Numbers differ from torch's, distributions do not.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch._functorch.predispatch import _add_batch_dim
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_all_functorch_interpreters

from aotpack.runtime.golden.philox import philox

_LONGEST_STREAM = 2**40
_MANTISSA = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
_LIBRARY: Any = torch.library.Library("aotpack", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("philox(Tensor seed, int stream, SymInt[] size) -> Tensor")


@torch.library.impl(_LIBRARY, "philox", "CompositeExplicitAutograd")
def _bits(seed: torch.Tensor, stream: int, size: Sequence[int]) -> torch.Tensor:
    places = np.arange(math.prod(size), dtype=np.int64) + stream * _LONGEST_STREAM
    return torch.from_numpy(philox(seed.numpy(), places)).reshape(list(size))


@torch.library.register_fake("aotpack::philox", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _bits_shape(seed: torch.Tensor, stream: int, size: Sequence[int]) -> torch.Tensor:
    return seed.new_empty(list(size))


class Streams:
    """The draws of a call from one seed; a base beside torch's mode."""

    def __init__(self, seed: torch.Tensor) -> None:
        super().__init__()
        self.seed = seed
        self.count = 0

    def bits(self, size: Sequence[Any]) -> torch.Tensor:
        """The next stream: 64 random bits for each element."""
        self.count += 1
        members = [*_members()]
        shape = [*(count for _, count in members), *size]
        bits: torch.Tensor = torch.ops.aotpack.philox(self.seed, self.count - 1, shape)
        for level, _ in members:
            bits = _add_batch_dim(bits, 0, level)
        return bits

    def uniform(self, size: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """Uniform in [0, 1), with the bits of the type's mantissa; both parts if it is complex."""
        if dtype.is_complex:
            parts = [self.uniform(size, dtype.to_real()) for _ in range(2)]
            return torch.complex(*parts)
        if dtype not in _MANTISSA:
            raise ValueError(f"random numbers are floats or complex, not of {dtype}")
        places = _MANTISSA[dtype]
        whole = (self.bits(size) >> 8) & ((1 << places) - 1)
        return whole.to(wide_type(dtype)).mul(2.0**-places).to(dtype)

    def normal(self, size: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """Mean 0, deviation 1 (Box and Muller); parts of complex numbers have half the variance."""
        if dtype.is_complex:
            parts = [self.normal(size, dtype.to_real()) for _ in range(2)]
            return torch.complex(*parts) * math.sqrt(0.5)
        wide = wide_type(dtype)
        if wide is torch.float64:
            radius, turn = 1 - self.uniform(size, wide), self.uniform(size, wide)
        else:
            bits = self.bits(size)
            mask, unit = (1 << 24) - 1, 2.0**-24
            radius = ((bits & mask) + 1).to(wide) * unit
            turn = ((bits >> 32) & mask).to(wide) * unit
        return ((radius.log() * -2).sqrt() * (turn * (2 * math.pi)).cos()).to(dtype)


def _members() -> Iterator[tuple[int, Any]]:
    """Levels of ``torch.vmap`` whose members draw numbers of their own, with their counts."""
    for one in retrieve_all_functorch_interpreters():
        if isinstance(one, VmapInterpreter) and one.randomness() == "different":
            yield one.level(), one.batch_size()


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """The type of intermediate numbers: float32 at least."""
    return torch.float64 if dtype is torch.float64 else torch.float32
