"""What a package's wrapper hands over: the launches and the memory of one set of sizes."""

from typing import NamedTuple


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


class Plan(NamedTuple):
    """All launches in order, with their intermediates and the shapes of the outputs."""

    buffers: tuple[Buffer, ...]
    outputs: tuple[tuple[int, ...], ...]
    launches: tuple[Launch, ...]
