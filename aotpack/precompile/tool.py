"""Runs a compiler: in a session of its own, for a limited time; its words are text in any encoding.

A failure to start, a hang and an interrupt leave no process behind.
"""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotpack.errors import CompileError
from aotpack.knobs import read_knobs


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a program: its exit code, or the negative number of a signal; its words."""

    status: int
    output: str
    errors: str

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return ending_of(self.status)


def run_tool(doing: str, command: Sequence[str], folder: Path | None = None) -> Done:
    """Run a program to its end, in ``folder``; CompileError if it does not start or hangs."""
    limit = read_knobs().timeout
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CompileError(
            f"{doing}: {shlex.join(command)} could not be started: {error}"
        ) from error
    with process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            raise CompileError(f"{doing}: {shlex.join(command)} {too_long(limit)}") from None
        except BaseException:
            if process.returncode is None:
                end_session(process.pid)
            raise
    words = (text.decode(errors="backslashreplace") for text in (output, errors))
    return Done(process.returncode, *words)


def end_session(leader: int) -> None:
    """End all processes of a session that was started here."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def ending_of(status: int) -> str:
    """``exit code 1``, or ``signal SIGKILL`` for a process that one ended."""
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"signal {name}"


def too_long(limit: int) -> str:
    """What is said of a compiler that hangs."""
    return (
        f"did not end within {limit} seconds and was stopped; AOTPACK_TIMEOUT sets the limit in "
        "seconds"
    )
