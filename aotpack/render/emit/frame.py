"""A kernel's axes in the tile of a program: index tensors, masks, dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Atom, Axis, Quotient


@dataclass(frozen=True, slots=True)
class Frame:
    """The tile of a program: ``names`` of the axes' index tensors, ``masks`` with bound checks.

    ``blocks`` are the axes that span dimensions of the tile, with their lengths, in order; any
    other axis is one number for the whole program. ``starts`` are first indices of blocks that
    begin at multiples of their length. In a frame of vectors the last axis has two dimensions: the
    ``vector`` neighbours of each thread, then threads.
    """

    names: Mapping[Axis, str]
    masks: Mapping[Axis, str]
    blocks: tuple[tuple[Axis, int], ...]
    starts: Mapping[Axis, str] = field(default_factory=dict)
    vector: int = 0

    def shape(self, needs: frozenset[Axis]) -> str:
        """The shape of something that depends on these axes: ``[16, 1]``."""
        if self.vector:
            ((axis, block),) = self.blocks
            return f"[{self.vector}, {block // self.vector}]" if axis in needs else "[1, 1]"
        return "[" + ", ".join(str(n if axis in needs else 1) for axis, n in self.blocks) + "]"

    def spread(self, needs: frozenset[Axis]) -> frozenset[Axis]:
        """Those of the axes that span a dimension."""
        return frozenset(axis for axis, _ in self.blocks if axis in needs)

    def start(self, atom: Atom) -> str | None:
        """The numerator of a quotient that is one number for the whole block; else None."""
        if not isinstance(atom, Quotient) or not isinstance(atom.num.atom, Axis):
            return None
        axis = atom.num.atom
        if axis not in self.starts or not known_multiple(atom.den, dict(self.blocks)[axis]):
            return None
        return self.starts[axis]
