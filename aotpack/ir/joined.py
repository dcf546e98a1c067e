"""Buffers that are several others in one memory, and what must be written before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aotpack.ir.nodes import Program


@dataclass(frozen=True, slots=True)
class Packed:
    """A weight that is others laid end to end in memory, along the first dimension."""

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """``name`` is its ``parts`` in one memory: buffers of its shape and type, nobody else's.

    Each part is written by a pointwise operation, at some elements; all write all, each once.
    """

    name: str
    parts: tuple[str, ...]


def sources(names: Iterable[str], program: Program) -> tuple[str, ...]:
    """What must be written before these are read: for a joined buffer, its parts."""
    parts = {joined.name: joined.parts for joined in program.joined}
    return tuple(source for name in names for source in parts.get(name, (name,)))


def wholes(program: Program) -> dict[str, str]:
    """The joined buffer that each part lies in."""
    return {part: joined.name for joined in program.joined for part in joined.parts}
