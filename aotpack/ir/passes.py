"""Passes, which are named functions from a state to the next one, and their runner.

A state is a frozen value that prints and verifies itself: a lowered program (for passes of the
user) or the draft of a schedule.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, TypeVar

from aotpack.errors import noting


class State(Protocol):
    """The value that passes transform."""

    def as_text(self) -> str:
        """The state as readable text."""

    def verify(self, before: Self | None = None) -> None:
        """Raise if the decided part is illegal; programs of ``before`` are known to be legal."""


Changed = TypeVar("Changed", bound=State)


class Pass(Protocol[Changed]):
    """A step with a name; it returns the same object if it changes nothing."""

    @property
    def name(self) -> str:
        """The name in dumps, ``show --after`` and the documentation."""

    def __call__(self, state: Changed, /) -> Changed:
        """The next state."""


@dataclass(frozen=True, slots=True)
class PassRun:
    """A pass that has run: its number among those of its stage, its time and its result."""

    number: int
    name: str
    seconds: float
    state: State
    before: State

    @property
    def is_changed(self) -> bool:
        """False for a pass that returned what it was given."""
        return self.state is not self.before


AfterPass: TypeAlias = Callable[[PassRun], None]


def run_passes(
    passes: Iterable[Pass[Changed]],
    state: Changed,
    after: AfterPass | None = None,
    first: int = 1,
) -> Changed:
    """Run passes on a state, numbered from ``first``; ``after`` is called after each.

    An exception gets a note that names the pass.
    """
    for number, one in enumerate(passes, first):
        start = time.perf_counter()
        with noting(f"in pass {number}, {one.name}"):
            result = one(state)
        seconds = time.perf_counter() - start
        if after is not None:
            after(PassRun(number, one.name, seconds, result, state))
        state = result
    return state


def verify_each(run: PassRun) -> None:
    """Verify a changed state. An exception gets a note that names the pass."""
    if run.is_changed:
        with noting(f"found after pass {run.number}, {run.name}"):
            run.state.verify(run.before)
