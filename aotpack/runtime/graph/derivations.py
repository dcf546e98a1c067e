"""The weight programs of several methods as one: what two of them compute alike, one computes.

A value is known by its history: the kernel, the grid, and the histories of what the kernel takes.
"""

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import PackageError, a_type
from ..manifest import Kernel
from ..plan import Branch, Buffer, Counters, Launch, Loop, Place, Plan, Repeat, SizeRead, parts
from ..tensors import DerivedWeight


@dataclass(frozen=True, slots=True)
class Derivations:
    """One plan of all; ``names`` are those of a method's derived weights, by its own names."""

    plan: Plan
    derived: tuple[DerivedWeight, ...]
    names: Mapping[str, Mapping[str, str]]


def joined(
    methods: Mapping[str, tuple[Plan, tuple[DerivedWeight, ...]]], kernels: Mapping[str, Kernel]
) -> Derivations:
    """The plans of weight programs, in order; each launch with a new result stays."""
    known: dict[Hashable, DerivedWeight] = {}
    names: dict[str, dict[str, str]] = {}
    plans: list[Plan] = []
    for method, (plan, derived) in methods.items():
        _check_plain(plan)
        own = {one.name: f"{method}.{one.name}" for one in derived}
        histories = _histories(plan, own, kernels)
        wanted = set()
        for weight in (one for one in derived if one.name in histories):
            key = histories[weight.name], weight.dtype, weight.shape, weight.bytes
            found = known.setdefault(key, replace(weight, name=own[weight.name]))
            if found.name == own[weight.name]:
                wanted.add(weight.name)
            own[weight.name] = found.name
        names[method] = own
        plans.append(_renamed(method, _needed(plan, wanted, kernels), own))
    return Derivations(_concatenated(plans), tuple(known.values()), names)


def _launches(place: Place) -> Iterator[Launch]:
    """The launches of a place."""
    for part in () if isinstance(place, (Branch, Loop, SizeRead, Repeat)) else parts(place):
        if isinstance(part, Launch):
            yield part


def _check_plain(plan: Plan) -> None:
    """A weight program of several has launches alone."""
    for _, step in plan.steps():
        if not isinstance(step, Launch):
            raise PackageError(
                f"loading a package: a weight program has {a_type(step)}; accepted are "
                "launches. The package is damaged: reinstall it."
            )


def _local(plan: Plan) -> list[str]:
    """The names that only this plan has."""
    return [one.name for one in plan.buffers] + [one.name for one in plan.counters]


def _histories(
    plan: Plan, derived: Mapping[str, str], kernels: Mapping[str, Kernel]
) -> dict[str, str]:
    """What each name stands for after the plan; other methods' tensors have no such name."""
    own = {*derived, *_local(plan)}
    found: dict[str, str] = {}
    for launch in (launch for place in plan.launches for launch in _launches(place)):
        taken = tuple(
            (found.get(str(arg), "new"), launch.args.index(arg)) if arg in own else arg
            for arg in launch.args
        )
        history = hashlib.sha256(repr((launch.kernel, launch.grid, taken)).encode()).hexdigest()
        for place, arg in _written(launch, kernels):
            found[arg] = f"{place} of {history}"
    return found


def _written(launch: Launch, kernels: Mapping[str, Kernel]) -> Iterator[tuple[int, str]]:
    """The tensors that a launch writes, with their places among its arguments."""
    declared = zip(launch.args, kernels[launch.kernel].args, strict=True)
    for place, (arg, one) in enumerate(declared):
        if one.written and isinstance(arg, str):
            yield place, arg


def _needed(plan: Plan, wanted: set[str], kernels: Mapping[str, Kernel]) -> Plan:
    """The plan without launches that no wanted result needs; places keep their numbers.

    A name stands for memory that several intermediates share, so all that touches it stays.
    """
    live, kept = set(wanted), list[Place]()
    for place in reversed(plan.launches):
        launches = [*_launches(place)]
        written = {arg for launch in launches for _, arg in _written(launch, kernels)}
        is_needed = bool(written & live)
        if is_needed:
            live |= {arg for launch in launches for arg in launch.args if isinstance(arg, str)}
        kept.append(place if is_needed else ())
    return plan._replace(launches=tuple(reversed(kept)))


def _renamed(method: str, plan: Plan, derived: Mapping[str, str]) -> Plan:
    """The plan with names that no other method has; weights keep theirs."""
    names = {**{name: f"{method}/{name}" for name in _local(plan)}, **derived}

    def renamed(one: Launch) -> Launch:
        args = tuple(names.get(a, a) if isinstance(a, str) else a for a in one.args)
        return one._replace(args=args)

    return plan._replace(
        buffers=tuple(one._replace(name=names[one.name]) for one in plan.buffers),
        counters=tuple(one._replace(name=names[one.name]) for one in plan.counters),
        launches=tuple(tuple(map(renamed, _launches(place))) for place in plan.launches),
    )


def _concatenated(plans: list[Plan]) -> Plan:
    """One plan after the other; lifetimes count the places of all."""
    buffers, launches, counters = list[Buffer](), list[Place](), list[Counters]()
    for plan in plans:
        start = len(launches)
        buffers += [
            one._replace(first=one.first + start, last=one.last + start) for one in plan.buffers
        ]
        launches += plan.launches
        counters += plan.counters
    return Plan(tuple(buffers), (), tuple(launches), tuple(counters))
