"""What the wrapper's template and that of types get: frozen contexts of finished text."""

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
    """A step with parts: the opening of a ``Branch``, ``Loop`` or ``SizeRead``, its parts.

    It is launches instead where the condition of one of the ``choices`` holds.
    """

    comment: str
    head: str
    parts: tuple[PartContext, ...]
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartContext:
    """Intermediates (name, bytes, first and last launch) and launches.

    ``name`` is "", "x=" or "lambda x: ".
    """

    name: str
    buffers: tuple[tuple[str, str, int, int], ...]
    launches: tuple[LaunchContext | NestedContext, ...]
    counters: tuple[tuple[str, str], ...] = ()  # name, bytes


@dataclass(frozen=True, slots=True)
class BodyContext:
    """A body that several calls share: its name, the tensors that they give, its launches."""

    name: str
    names: str
    part: PartContext


@dataclass(frozen=True, slots=True)
class PlanContext:
    """A plan and its condition on ``arch``; the last plan has none."""

    condition: str
    body: PartContext
    bodies: tuple[BodyContext, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapperContext:
    """The tables of ``wrapper.py``; all entries are Python expressions in the parameters.

    ``weights`` are the plans of the weight program.
    """

    title: str
    imported: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    plans: tuple[PlanContext, ...]
    has_choices: bool = False
    has_calls: bool = False
    weights: tuple[PlanContext, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassContext:
    """A class of results: its kind in ``Tree``, fields and types.

    ``picks`` are the literals by which an "object" is indexed, with the types of what they pick.
    ``hiding`` are fields with the name of a method of dict.
    """

    name: str
    kind: str
    fields: tuple[tuple[str, str], ...]
    picks: tuple[tuple[str, str], ...]
    hiding: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallContext:
    """A method: lines of its parameters by form, the type of its result; "" is the only one."""

    name: str
    forms: tuple[tuple[str, ...], ...]
    result: str


@dataclass(frozen=True, slots=True)
class InterfaceContext:
    """The tables of ``__init__.pyi``: names with fields, and calls."""

    title: str
    dicts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    protocols: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    classes: tuple[ClassContext, ...]
    calls: tuple[CallContext, ...]
