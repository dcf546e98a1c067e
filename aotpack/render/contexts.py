"""What the wrapper's template gets: frozen contexts of finished text and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """One launch: ``choices`` are (condition, Launch expression), the last without a condition.

    An expression may be a tuple of launches in order.
    """

    choices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NestedContext:
    """A step with parts: the opening of a ``Branch`` or ``Loop`` call, then its parts."""

    comment: str
    head: str
    parts: tuple[PartContext, ...]


@dataclass(frozen=True, slots=True)
class PartContext:
    """Intermediates (name, bytes, first and last launch) and launches; ``name`` is "" or "x="."""

    name: str
    buffers: tuple[tuple[str, str, int, int], ...]
    launches: tuple[LaunchContext | NestedContext, ...]
    counters: tuple[tuple[str, str], ...] = ()  # name, bytes


@dataclass(frozen=True, slots=True)
class PlanContext:
    """A plan and its condition on ``arch``; the last plan has none."""

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
