"""A condition on sizes that a call makes."""

from dataclasses import dataclass

from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, Var, maximum, minimum


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition on sizes: ``holds`` is 1 where it holds, else 0; ``text`` states it.

    A call checks what data decide, and what sizes without a declared maximum break if they are
    ``huge``. Of other declared sizes it holds, or the build is refused.
    """

    holds: Int
    text: str
    huge: bool = False

    @property
    def is_checked_in_calls(self) -> bool:
        """True for one of sizes that nobody has limited."""
        sizes = [one for one in self.holds.leaves() if isinstance(one, Var)]
        return self.huge and any(one.high >= LARGEST_SIZE for one in sizes)


def is_some(size: Int) -> Int:
    """1 for a size of 1 and more, else 0."""
    return minimum(maximum(size, 0), 1)
