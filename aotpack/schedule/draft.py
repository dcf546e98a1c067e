"""A schedule under construction, and the passes that change it.

A pass is a function of the fields of a draft that it reads, by parameter name; the tuples in
``passes.py`` say which fields its result replaces.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.kernel import Kernel, Lifetime, Schedule, schedule_text
from aotpack.ir.packs import Packs
from aotpack.ir.passes import AfterPass, run_passes
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.phases import Phase
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.schedule.launches.user_partition import Partition


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """The options of ``schedule``.

    ``deterministic``: equal inputs give equal bits in every run, and a row of a batch gets the same
    bits in any other batch. ``partition`` says which kernels share a launch. ``offers_unfused``
    adds unfused forms of launches, for tuning to time. Thresholds are those of ``gpu``, except on
    architectures that have their own. ``is_host``: for processors alone. Other methods of the
    package change the weights ``state``; of those ``packed`` each follows the one before it.
    ``calls`` are the package's names for the weights of a body, in each of its calls. With
    ``fp32_precision`` "tf32" GPUs take float32 factors of products with 10 bits of mantissa.
    """

    deterministic: bool = False
    partition: Partition | None = None
    offers_unfused: bool = False
    gpu: Gpu = H200
    is_host: bool = False
    state: frozenset[str] = frozenset()
    packed: Packs = ()
    fp32_precision: str = "ieee"
    calls: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of a schedule: ``prepare`` runs once, ``plan`` for each range of architectures."""

    prepare: tuple[DraftPass, ...] = ()
    plan: tuple[DraftPass, ...] = ()

    def __iter__(self) -> Iterator[DraftPass]:
        yield from self.prepare
        yield from self.plan

    def replaced(self, name: str, function: Callable[..., Any]) -> Passes:
        """The same with ``function`` in place of each pass ``name``."""
        if name not in (one.name for one in self):
            raise KeyError(name)
        prepare, plan = (
            tuple(replace(one, function=function) if one.name == name else one for one in some)
            for some in (self.prepare, self.plan)
        )
        return Passes(prepare, plan)


@dataclass(frozen=True, slots=True)
class Draft:
    """The state between passes: a program, then its kernels, strides and lifetimes.

    ``parts`` are the schedules inside each branch, loop and call, by its first target, also of
    calls in the weight program; ``weights`` is the schedule of that. Reductions to the targets
    ``resident`` are not split. ``given`` are the strides that readers chose for the outputs of this
    weight program. ``part`` names the part or weight program that this is, ``arches`` its
    architectures if not all. ``phase`` says what has been decided.
    ``passes`` and ``after`` are for the parts.
    """

    program: Program
    kernels: tuple[Kernel, ...] = ()
    strides: dict[str, tuple[Int, ...]] = field(default_factory=dict)
    lifetimes: tuple[Lifetime, ...] = ()
    parts: Mapping[str, tuple[Schedule, ...]] = field(default_factory=dict)
    resident: frozenset[str] = frozenset()
    given: Mapping[str, tuple[Int, ...]] = field(default_factory=dict)
    expected: Mapping[str, tuple[Int, ...]] = field(default_factory=dict)
    weights: Schedule | None = None
    options: ScheduleOptions = ScheduleOptions()
    part: str = ""
    arches: str = ""
    phase: Phase = Phase.PROGRAM
    passes: Passes = Passes()
    after: AfterPass | None = None

    @property
    def schedule(self) -> Schedule:
        """The draft as a schedule, complete or not."""
        return Schedule(
            self.program, self.kernels, self.strides, self.lifetimes, self.given, self.weights
        )

    def as_text(self) -> str:
        """The program, or the schedule so far once there are kernels."""
        head = f"# {self.part}\n" if self.part else ""
        head += f"# on {self.arches}\n" if self.arches else ""
        return head + (schedule_text(self.schedule) if self.kernels else str(self.program))

    def verify(self, before: Draft | None = None) -> None:
        """Verify what is decided; the programs and inner schedules of ``before`` are legal."""
        verify_schedule(self.schedule, self.phase, before.schedule if before else None)

    def prepared(self) -> Draft:
        """The draft after the passes of ``prepare``."""
        return run_passes(self.passes.prepare, self, self.after)

    def planned(self) -> Schedule:
        """The schedule that ``plan`` makes of a prepared draft."""
        first = len(self.passes.prepare) + 1
        return run_passes(self.passes.plan, self, self.after, first).schedule


FIELDS = {one.name for one in fields(Draft)} | {one.name for one in fields(ScheduleOptions)}


@dataclass(frozen=True, slots=True)
class DraftPass:
    """A function as a pass: its result replaces the fields of a draft that it ``changes``.

    A parameter ``draft`` takes the whole draft. A pass runs ``only_with`` one of the options or
    fields, or ``only_without`` it. The phase that it ``reaches`` is verified from then on.
    """

    name: str
    function: Callable[..., Any]
    changes: tuple[str, ...]
    only_with: str = ""
    only_without: str = ""
    reaches: Phase = Phase.PROGRAM

    def __post_init__(self) -> None:
        named = {*self.reads, *self.changes, self.only_with, self.only_without}
        unknown = named - FIELDS - {"draft", ""}
        if unknown:
            raise TypeError(f"pass {self.name}: a draft has no {', '.join(sorted(unknown))}")

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of a draft that the function is given."""
        return tuple(inspect.signature(self.function).parameters)

    def __call__(self, draft: Draft) -> Draft:
        """The draft with the changed parts; the same object if nothing changes."""
        if self.only_with and not _field(draft, self.only_with):
            return draft
        if self.only_without and _field(draft, self.only_without):
            return draft
        result = self.function(**{name: _field(draft, name) for name in self.reads})
        made = (result,) if len(self.changes) == 1 else result
        new = dict(zip(self.changes, made, strict=True))
        phase = max(draft.phase, self.reaches)
        if phase == draft.phase and all(
            _is_same(getattr(draft, name), value) for name, value in new.items()
        ):
            return draft
        return replace(draft, phase=phase, **new)


def draft_pass(
    function: Callable[..., Any],
    changes: str,
    *,
    only_with: str = "",
    only_without: str = "",
    reaches: Phase = Phase.PROGRAM,
) -> DraftPass:
    """A pass; ``changes`` holds names separated by blanks."""
    name = function.__name__
    return DraftPass(name, function, tuple(changes.split()), only_with, only_without, reaches)


def _field(draft: Draft, name: str) -> Any:
    if name == "draft":
        return draft
    return getattr(draft if hasattr(draft, name) else draft.options, name)


def _is_same(before: Any, after: Any) -> bool:
    """True for one object, tuples of the same objects, and equal strides."""
    if isinstance(before, dict):
        return bool(before == after)
    if not isinstance(before, tuple):
        return before is after
    return len(before) == len(after) and all(map(operator.is_, before, after))
