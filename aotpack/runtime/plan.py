"""What a package's wrapper hands over: the launches and the memory of one set of sizes."""

from typing import NamedTuple


class Buffer(NamedTuple):
    """An intermediate of ``size`` bytes, used from launch ``first`` to launch ``last``."""

    name: str
    size: int
    first: int
    last: int


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments: a str names a tensor, an int is passed as it is."""

    kernel: str
    grid: tuple[int, int, int]
    args: tuple[str | int, ...]


class Part(NamedTuple):
    """Launches in order, with their own intermediates, that a branch or loop runs or does not.

    ``first`` and ``last`` of its buffers count its own launches.
    """

    buffers: "tuple[Buffer, ...]"
    launches: "tuple[Step, ...]"


class Branch(NamedTuple):
    """The first part where the predicate is true, else the second.

    ``number`` is the launch it stands for, as ``first`` and ``last`` of buffers count: kernels that
    share a launch on GPUs are several here on a processor. The predicate is the name of a bool
    tensor without dimensions, which the host reads when all before it is done; or a number that is
    0 or 1.
    """

    number: int
    predicate: str | int
    first: Part
    second: Part


class Loop(NamedTuple):
    """``entry`` once, then ``body`` again and again: so often, or while the named tensor is true.

    The ``test`` writes that tensor before each turn, and the host reads it. ``turn`` names the
    integer argument that counts from 0, if the body has one. ``number`` is as for a branch.
    """

    number: int
    condition: str | int
    turn: str
    entry: Part
    body: Part
    test: Part | None = None


Step = Launch | Branch | Loop


class Plan(NamedTuple):
    """All launches in order, with their intermediates and the shapes of the outputs.

    A plan with a branch or a loop is no straight line: it is run step by step.
    """

    buffers: tuple[Buffer, ...]
    outputs: tuple[tuple[int, ...], ...]
    launches: tuple[Step, ...]
