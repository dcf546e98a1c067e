"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Reporter(Protocol):
    """The port every stage reports to."""

    def begin(self, what: str, total: int = 0) -> None:
        """Work starts; ``total`` is its number of steps, 0 if unknown."""

    def step(self, label: str) -> None:
        """One step of the current work is done."""


class Quiet:
    """Shows nothing: the Python interface's default."""

    def begin(self, what: str, total: int = 0) -> None:
        """See Reporter."""

    def step(self, label: str) -> None:
        """See Reporter."""


class PlainLines:
    """A line for each piece of work and for each tenth of a counted one: for logs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.what, self.total, self.done = "", 0, 0

    def begin(self, what: str, total: int = 0) -> None:
        """See Reporter."""
        self.what, self.total, self.done = what, total, 0
        counted = f" ({total})" if total else ""
        print(f"{what}{counted}", file=self.stream, flush=True)

    def step(self, label: str) -> None:
        """See Reporter."""
        before, self.done = self.done, self.done + 1
        if self.total and self.done * 10 // self.total > before * 10 // self.total:
            print(f"{self.what} {self.done}/{self.total}: {label}", file=self.stream, flush=True)


class EveryStep:
    """A line for each piece of work and each step, with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.start = time.perf_counter()

    def begin(self, what: str, total: int = 0) -> None:
        """See Reporter."""
        self._write(f"{what} ({total})" if total else what)

    def step(self, label: str) -> None:
        """See Reporter."""
        self._write(f"  {label}")

    def _write(self, text: str) -> None:
        seconds = time.perf_counter() - self.start
        print(f"{seconds:8.2f} s  {text}", file=self.stream, flush=True)


class Bar:
    """A live bar; use as a context manager so that the terminal is restored."""

    def __init__(self, console: Console) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def begin(self, what: str, total: int = 0) -> None:
        """See Reporter."""
        self.bar.reset(self.task, total=total or None, description=what)

    def step(self, label: str) -> None:
        """See Reporter."""
        self.bar.advance(self.task)


def chosen_reporter(*, quiet: bool = False, verbose: bool = False) -> Reporter:
    """What the options ask for; by default a bar on a terminal and plain lines elsewhere."""
    if quiet:
        return Quiet()
    if verbose:
        return EveryStep(sys.stderr)
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else PlainLines(sys.stderr)
