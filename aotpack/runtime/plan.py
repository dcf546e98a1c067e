"""A plan: the launches and the memory for one set of sizes, as the package's wrapper returns it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias


class Buffer(NamedTuple):
    """An intermediate of ``size`` bytes, used from launch ``first`` to launch ``last``."""

    name: str
    size: int
    first: int
    last: int


class Counters(NamedTuple):
    """``size`` bytes that are zero before and after each launch that takes them.

    They never share memory with another tensor or launch.
    """

    name: str
    size: int


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments: a str names a tensor, an int is passed by value.

    ``source`` is the kernel's line of the model.
    """

    kernel: str
    grid: tuple[int, int, int]
    args: tuple[str | int, ...]
    source: str = ""


class Call(NamedTuple):
    """A call of torch by its name in the manifest; arguments are (tensor, shape) or integers."""

    name: str
    args: tuple[tuple[str, tuple[int, ...]] | int, ...]


Form: TypeAlias = "Launch | Call | tuple[Form, ...]"
"""What is done at one place of a plan: a launch, or several that follow each other."""


def first(key: str, *forms: Form) -> Form:
    """The default ``pick`` of a plan: the first form of a launch."""
    return forms[0]


class Part(NamedTuple):
    """The region of a branch or loop: launches in order, with their intermediates.

    Lifetimes count the places of these ``launches``.
    """

    buffers: tuple[Buffer, ...]
    launches: "tuple[Place, ...]"
    counters: tuple[Counters, ...] = ()

    def steps(self) -> "Iterator[tuple[int, Step]]":
        """Each launch, call and control step with the number of its place."""
        return _numbered(self.launches)


class Branch(NamedTuple):
    """``first`` if the predicate is true, else ``second``.

    The predicate names a 0-d bool tensor, which the host reads after synchronising; or it is a
    number, 0 or 1.
    """

    predicate: str | int
    first: Part
    second: Part


class Loop(NamedTuple):
    """``entry`` once, then ``body`` for a number of iterations, or while the named tensor is true.

    The ``test`` writes that tensor before each iteration, and the host reads it. ``turn`` names the
    body's integer argument for the number of the iteration, from 0; "" for none.
    """

    condition: str | int
    turn: str
    entry: Part
    body: Part
    test: Part | None = None


class SizeRead(NamedTuple):
    """``rest`` gives what is issued once the ``sizes`` are known, in their order.

    Each size is what a 0-d int64 tensor of ``counts`` holds, which the host reads after
    synchronising; it is at most the number in ``most``.
    """

    sizes: tuple[str, ...]
    counts: tuple[str, ...]
    most: tuple[int, ...]
    rest: Callable[..., Part]


class Body(NamedTuple):
    """Launches that several calls share; ``names`` are the tensors that a call gives."""

    names: tuple[str, ...]
    part: Part


class Repeat(NamedTuple):
    """A call of a body on the tensors ``args``; ``graph/unrolled.py`` puts the launches here."""

    body: Body
    args: tuple[str, ...]


Control: TypeAlias = Branch | Loop | SizeRead
Step: TypeAlias = Launch | Call | Control
Place: TypeAlias = "Form | Control | Repeat"


class Plan(NamedTuple):
    """All launches in order, with their intermediates and the shapes of the outputs.

    Lifetimes count the places of ``launches``; one place may hold several launches. A plan with a
    branch, a loop or a size read is not straight-line code: the host issues it in parts. An output
    whose shape waits for a size read has None.
    """

    buffers: tuple[Buffer, ...]
    outputs: tuple[tuple[int, ...] | None, ...]
    launches: tuple[Place, ...]
    counters: tuple[Counters, ...] = ()

    def steps(self) -> Iterator[tuple[int, Step]]:
        """Each launch, call and control step with the number of its place."""
        return _numbered(self.launches)


def _numbered(launches: tuple[Place, ...]) -> Iterator[tuple[int, Step]]:
    for number, place in enumerate(launches):
        if isinstance(place, Repeat):
            raise TypeError("a plan with calls of bodies has no steps before it is unrolled")
        if isinstance(place, (Branch, Loop, SizeRead)):
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
