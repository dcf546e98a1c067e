"""Real functions of both parts that neither overflow nor underflow earlier than their results."""

import torch
from torch import Tensor

_SCALES = {torch.float32: 64, torch.float64: 512}
"""The power of 2 by which numbers are scaled that are further from 1 than it: even."""

_EXPONENTS = {torch.float32: 87.0, torch.float64: 708.0}
"""The last whole number of which ``exp`` and its reciprocal are neither infinite nor subnormal."""


def exponent_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """A number whose ``exp`` is a normal float, and the root of ``exp`` of the rest, mostly 1.

    Other factors go between: ``exp(x) * y == exp(part) * y * root * root``.
    """
    bound = _EXPONENTS[x.dtype]
    part = x.clamp(-bound, bound)
    return part, ((x - part) * 0.5).exp()


def larger_part(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs())


def scaled(x: Tensor, y: Tensor, power: float) -> tuple[Tensor, Tensor]:
    """The size of huge and tiny numbers times a scale, and the factor of ``size**power``."""
    step, large = _SCALES[x.dtype], larger_part(x, y)
    is_huge, is_tiny = large > 2.0**step, large < 2.0**-step
    once = torch.ones_like(large)
    scale = torch.where(is_huge, 2.0**-step, torch.where(is_tiny, 2.0**step, once))
    size = torch.complex(x * scale, y * scale).abs()
    up, down = _power_of_two(step * power), _power_of_two(-step * power)
    return size, torch.where(is_huge, up, torch.where(is_tiny, down, once))


def _power_of_two(exponent: float) -> float:
    return 2.0**exponent if exponent < 1024 else torch.inf


def log_size(x: Tensor, y: Tensor) -> Tensor:
    """``log(sqrt(x * x + y * y))``, infinite where a part is."""
    large, small = larger_part(x, y), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(small == large, 1.0, small / large)
    found = large.log() + (ratio * ratio).log1p() * 0.5
    return torch.where(x.isinf() | y.isinf(), torch.inf, found)


def is_endless(x: Tensor, y: Tensor) -> Tensor:
    """True where the size is infinite and the angle unknown: both are no numbers."""
    return x.isinf() & ~y.isfinite()
