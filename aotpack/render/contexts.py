"""What the wrapper's template gets: frozen contexts of finished text and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """One launch: ``choices`` are (condition, Launch expression), the last without a condition.

    An expression may be a tuple of launches that follow each other.
    """

    choices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NestedContext:
    """A step that runs parts: the head of a call of ``Branch`` or ``Loop``, then a part each."""

    comment: str
    head: str
    parts: tuple[PartContext, ...]


@dataclass(frozen=True, slots=True)
class PartContext:
    """Intermediates (name, bytes, first and last launch), and what uses them; ``name=`` or ""."""

    name: str
    buffers: tuple[tuple[str, str, int, int], ...]
    launches: tuple[LaunchContext | NestedContext, ...]
    counters: tuple[tuple[str, str], ...] = ()  # name, bytes


@dataclass(frozen=True, slots=True)
class PlanContext:
    """A plan, and the condition on ``arch`` under which it is taken; the last has none."""

    condition: str
    body: PartContext


@dataclass(frozen=True, slots=True)
class WrapperContext:
    """The tables of ``wrapper.py``; all entries are Python expressions in the parameters."""

    title: str
    imported: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    plans: tuple[PlanContext, ...]
    has_choices: bool = False
