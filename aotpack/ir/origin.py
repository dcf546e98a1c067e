"""The origin of an operation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an operation: graph node names, operator names, the user's source lines."""

    nodes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __add__(self, other: Origin) -> Origin:
        return Origin(
            tuple(dict.fromkeys(self.nodes + other.nodes)),
            self.ops + other.ops,
            tuple(dict.fromkeys(self.sources + other.sources)),
        )

    @property
    def comment(self) -> str:
        """A comment behind the text of the operation; "" for none."""
        shown = "; ".join(part for part in (", ".join(self.nodes), *self.sources) if part)
        return f"  # {shown}" if shown else ""
