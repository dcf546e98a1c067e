"""Plans with the launches of bodies in place of their calls: what runs is straight-line code."""

from collections.abc import Mapping

from ..errors import PackageError, a_type
from ..plan import (
    Branch,
    Buffer,
    Call,
    Counters,
    Form,
    Launch,
    Loop,
    Part,
    Place,
    Plan,
    Repeat,
    SizeRead,
)


def unrolled(plan: Plan) -> Plan:
    """The plan with the launches of bodies in place of their calls.

    Intermediates of a body get names of their own in each call, and lifetimes that count the new
    places: calls that follow each other use the same memory.
    """
    made = _inlined(Part(plan.buffers, plan.launches, plan.counters))
    return plan._replace(buffers=made.buffers, launches=made.launches, counters=made.counters)


def _inlined(whole: Part) -> Part:
    """The part with the launches of bodies in place of their calls."""
    launches, buffers, counters = list[Place](), list[Buffer](), list[Counters]()
    starts: list[int] = []
    for number, place in enumerate(whole.launches):
        starts.append(len(launches))
        if isinstance(place, Repeat):
            made = _called(place, f"{number}/")
            buffers += [_moved(one, len(launches)) for one in made.buffers]
            launches += made.launches
            counters += made.counters
        else:
            launches.append(place)
    starts.append(len(launches))
    own = (
        one._replace(first=starts[one.first], last=max(starts[one.first], starts[one.last + 1] - 1))
        for one in whole.buffers
    )
    return Part((*own, *buffers), tuple(launches), (*whole.counters, *counters))


def _moved(one: Buffer, places: int) -> Buffer:
    return one._replace(first=one.first + places, last=one.last + places)


def _called(call: Repeat, prefix: str) -> Part:
    """The body of a call on its arguments."""
    part = _inlined(call.body.part)
    names = [*(one.name for one in part.buffers), *(one.name for one in part.counters)]
    own = {name: prefix + name for name in names}
    return _renamed(part, own | dict(zip(call.body.names, call.args, strict=True)))


def _renamed(part: Part, names: Mapping[str, str]) -> Part:
    """A part with other names for tensors; those that ``names`` has not stay."""
    return part._replace(
        buffers=tuple(one._replace(name=names.get(one.name, one.name)) for one in part.buffers),
        counters=tuple(one._replace(name=names.get(one.name, one.name)) for one in part.counters),
        launches=tuple(_place(place, names) for place in part.launches),
    )


def _place(place: Place, names: Mapping[str, str]) -> Place:
    """A place with other names for tensors; iteration numbers keep theirs."""
    if isinstance(place, Branch):
        return place._replace(
            predicate=_argument(place.predicate, names),
            first=_renamed(place.first, names),
            second=_renamed(place.second, names),
        )
    if isinstance(place, Loop):
        return place._replace(
            condition=_argument(place.condition, names),
            entry=_renamed(place.entry, names),
            body=_renamed(place.body, names),
            test=None if place.test is None else _renamed(place.test, names),
        )
    if isinstance(place, (SizeRead, Repeat)):
        raise PackageError(
            f"loading a package: the body of a call has {a_type(place)}. The package is damaged: "
            "reinstall it."
        )
    return _form(place, names)


def _form(form: Form, names: Mapping[str, str]) -> Form:
    if isinstance(form, Launch):
        return form._replace(args=tuple(_argument(one, names) for one in form.args))
    if isinstance(form, Call):
        pairs = (
            one if isinstance(one, int) else (names.get(one[0], one[0]), one[1])
            for one in form.args
        )
        return form._replace(args=tuple(pairs))
    return tuple(_form(one, names) for one in form)


def _argument(argument: str | int, names: Mapping[str, str]) -> str | int:
    return names.get(argument, argument) if isinstance(argument, str) else argument
