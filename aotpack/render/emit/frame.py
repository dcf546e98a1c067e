"""How a kernel's axes look in the tile that a program works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Atom, Axis, Quotient


@dataclass(frozen=True, slots=True)
class Frame:
    """How kernel axes look in a tile: ``names`` their index tensors, ``masks`` the bound checks.

    ``blocks`` are the axes that span dimensions of the tile, with their lengths, in order; any
    other axis is one number for the whole program. ``starts`` are first indices of blocks that
    begin at multiples of their length. The last axis has two dimensions in a frame of vectors:
    first the ``vector`` neighbours that each thread has, then threads.
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
        """For a quotient that is one number for the whole block: what is to be divided."""
        if not isinstance(atom, Quotient) or not isinstance(atom.num.atom, Axis):
            return None
        axis = atom.num.atom
        if axis not in self.starts or not known_multiple(atom.den, dict(self.blocks)[axis]):
            return None
        return self.starts[axis]
