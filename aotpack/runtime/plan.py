"""What a package's wrapper hands over: the launches and the memory of one set of sizes."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias


class Buffer(NamedTuple):
    """An intermediate of ``size`` bytes, used from launch ``first`` to launch ``last``."""

    name: str
    size: int
    first: int
    last: int


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


class Plan(NamedTuple):
    """All launches in order, with their intermediates and the shapes of the outputs.

    Lifetimes count the places of ``launches``, of which each may be several launches.
    """

    buffers: tuple[Buffer, ...]
    outputs: tuple[tuple[int, ...], ...]
    launches: tuple[Form, ...]

    def steps(self) -> Iterator[tuple[int, Launch | Call]]:
        """Each launch and call with the number of its place."""
        for place, form in enumerate(self.launches):
            for part in parts(form):
                yield place, part


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
