"""Passes: named functions from a state to the next one, and the one runner of them.

A state is a frozen value that prints and verifies itself: the program that passes of the user
change, or the draft of a schedule.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from aotpack.errors import noting


class State(Protocol):
    """What passes change."""

    def as_text(self) -> str:
        """The state as a person would write it."""

    def verify(self) -> None:
        """Raise what is illegal about the state as far as it is made."""


Changed = TypeVar("Changed", bound=State)


class Pass(Protocol[Changed]):
    """A step with a name; it returns the same object where it changes nothing."""

    @property
    def name(self) -> str:
        """What the dump, ``show --after`` and the documentation call it."""

    def __call__(self, state: Changed, /) -> Changed:
        """The next state."""


@dataclass(frozen=True, slots=True)
class PassRun:
    """A pass that has run: its number among those of its stage, its time and its result."""

    number: int
    name: str
    seconds: float
    state: State
    is_changed: bool


AfterPass: TypeAlias = Callable[[PassRun], None]


def run_passes(
    passes: Iterable[Pass[Changed]],
    state: Changed,
    after: AfterPass | None = None,
    first: int = 1,
) -> Changed:
    """What the passes make of a state; ``after`` is told of each. They are numbered from first.

    What a pass raises says which it was.
    """
    for number, one in enumerate(passes, first):
        start = time.perf_counter()
        with noting(f"in pass {number}, {one.name}"):
            result = one(state)
        seconds = time.perf_counter() - start
        if after is not None:
            after(PassRun(number, one.name, seconds, result, result is not state))
        state = result
    return state


def verify_each(run: PassRun) -> None:
    """Verify what a pass has changed. What is raised says after which pass it was found."""
    if run.is_changed:
        with noting(f"found after pass {run.number}, {run.name}"):
            run.state.verify()
