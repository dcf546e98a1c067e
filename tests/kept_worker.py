"""Compiling processes of Triton that go from one build to the next, instead of one for each build.

The start of one takes longer than many a kernel. A process goes on only where it has answered all
that it was asked and has complained of nothing, and where the next build gives it the same
environment; what Triton keeps in files is removed between builds.
"""

import itertools
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotpack.precompile import pool
from aotpack.precompile.request import Request
from aotpack.stages import Binary

Class = type[pool._Worker]


@dataclass(frozen=True, slots=True)
class Kept:
    """A process that waits, with its folder and the environment that it was started in."""

    process: "subprocess.Popen[str]"
    folder: Path
    environment: dict[str, str]


def keeping(root: Path) -> tuple[Class, Callable[[], None]]:
    """The class of workers that keep their processes, in folders in ``root``; what ends those."""
    waiting: list[Kept] = []
    numbers = itertools.count()

    class Worker(pool._Worker):
        is_asked = is_kept = False
        environment: dict[str, str]

        def _launch(self) -> "subprocess.Popen[str]":
            while waiting:
                kept = waiting.pop()
                if kept.process.poll() is None and kept.environment == environment_in(kept.folder):
                    self._lie_in(kept.folder)
                    return kept.process
                end(kept)
            folder = root / str(next(numbers))
            folder.mkdir()
            self._lie_in(folder)
            return super()._launch()

        def _lie_in(self, folder: Path) -> None:
            self.folder, self.errors = folder, folder / "errors.txt"
            self.environment = environment_in(folder)

        def _ask(self, request: Request) -> Binary | str:
            with self.lock:
                if self.stopped:
                    raise ValueError("the build has ended")
                self.is_asked = True
            answer = super()._ask(request)
            self.is_asked = False
            return answer

        def kill(self) -> None:
            with self.lock:
                self.stopped = True
                self.is_kept = not self.is_asked and self.process.poll() is None
                self.is_kept = self.is_kept and self.errors.stat().st_size == 0
                if not self.is_kept:
                    self._end()

        def join(self) -> None:
            self.thread.join()
            if self.is_kept:
                empty(self.folder)
                waiting.append(Kept(self.process, self.folder, self.environment))
            else:
                self._close()
                shutil.rmtree(self.folder)

    def end_all() -> None:
        while waiting:
            end(waiting.pop())

    return Worker, end_all


def end(kept: Kept) -> None:
    """End a process that waits: it reads the end of its input."""
    kept.process.communicate()
    shutil.rmtree(kept.folder)


def environment_in(folder: Path) -> dict[str, str]:
    """What a process is started with, but the name of the test."""
    given: dict[str, Any] = pool.worker_environment(folder)
    return {name: value for name, value in given.items() if name != "PYTEST_CURRENT_TEST"}


def empty(folder: Path) -> None:
    """Remove all but the file of errors, which the process writes to."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "errors.txt":
            path.unlink()
