"""A condition on sizes that a call makes."""

from dataclasses import dataclass

from aotpack.ir.symbolic.integers import Int, maximum, minimum


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition on sizes: ``holds`` is 1 where it holds, else 0; ``text`` states it."""

    holds: Int
    text: str


def is_some(size: Int) -> Int:
    """1 for a size of 1 and more, else 0."""
    return minimum(maximum(size, 0), 1)
