"""A plan: the launches and the memory for one set of sizes, as the package's wrapper returns it."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias


class Buffer(NamedTuple):
    """An intermediate of ``size`` bytes, used from launch ``first`` to launch ``last``."""

    name: str
    size: int
    first: int
    last: int


class Counters(NamedTuple):
    """``size`` bytes that are zero before each launch that is given them, and after it.

    They are no other tensor's memory at any time, nor another launch's.
    """

    name: str
    size: int


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments: a str names a tensor, an int is passed as it is.

    ``source`` is the line of the model that the kernel comes from.
    """

    kernel: str
    grid: tuple[int, int, int]
    args: tuple[str | int, ...]
    source: str = ""


class Call(NamedTuple):
    """A call of torch, by its name in the manifest: tensors with their shapes, and integers."""

    name: str
    args: tuple[tuple[str, tuple[int, ...]] | int, ...]


Form: TypeAlias = "Launch | Call | tuple[Form, ...]"
"""What is done at one place of a plan: a launch, or several that follow each other."""


def first(key: str, *forms: Form) -> Form:
    """How a plan picks one of several forms of a launch when nothing was measured."""
    return forms[0]


class Part(NamedTuple):
    """Launches in order, with their own intermediates, that a branch or loop runs or does not.

    Lifetimes count the places of its own ``launches``.
    """

    buffers: tuple[Buffer, ...]
    launches: "tuple[Place, ...]"
    counters: tuple[Counters, ...] = ()

    def steps(self) -> "Iterator[tuple[int, Step]]":
        """Each launch, call, branch and loop with the number of its place."""
        return _numbered(self.launches)


class Branch(NamedTuple):
    """The first part where the predicate is true, else the second.

    The predicate is the name of a bool tensor without dimensions, which the host reads when all
    before it is done; or a number that is 0 or 1.
    """

    predicate: str | int
    first: Part
    second: Part


class Loop(NamedTuple):
    """``entry`` once, then ``body`` again and again: so often, or while the named tensor is true.

    The ``test`` writes that tensor before each turn, and the host reads it. ``turn`` names the
    integer argument that counts from 0, if the body has one.
    """

    condition: str | int
    turn: str
    entry: Part
    body: Part
    test: Part | None = None


Step: TypeAlias = Launch | Call | Branch | Loop
Place: TypeAlias = "Form | Branch | Loop"


class Plan(NamedTuple):
    """All launches in order, with their intermediates and the shapes of the outputs.

    Lifetimes count the places of ``launches``, of which each may be several launches. A plan with
    a branch or a loop is no straight line: it is run step by step.
    """

    buffers: tuple[Buffer, ...]
    outputs: tuple[tuple[int, ...], ...]
    launches: tuple[Place, ...]
    counters: tuple[Counters, ...] = ()

    def steps(self) -> Iterator[tuple[int, Step]]:
        """Each launch, call, branch and loop with the number of its place."""
        return _numbered(self.launches)


def _numbered(launches: tuple[Place, ...]) -> Iterator[tuple[int, Step]]:
    for number, place in enumerate(launches):
        if isinstance(place, (Branch, Loop)):
            yield number, place
        else:
            yield from ((number, part) for part in parts(place))


def parts(form: Form) -> Iterator[Launch | Call]:
    """The launches and calls of a form, in order."""
    if isinstance(form, (Launch, Call)):
        yield form
    else:
        for part in form:
            yield from parts(part)


def flat(form: Form) -> Iterator[Launch]:
    """The launches of a form, in order."""
    return (part for part in parts(form) if isinstance(part, Launch))
