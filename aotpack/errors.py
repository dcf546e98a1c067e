"""The errors that aotpack raises for users. Any other exception is a defect of aotpack."""

from collections.abc import Iterator
from contextlib import contextmanager

from aotpack.runtime.errors import (
    AotpackError,
    AssertionFailed,
    VerifyError,
    a_type,
    did_you_mean,
    printable,
    printable_lines,
)

__all__ = [
    "AotpackError",
    "AssertionFailed",
    "CompileError",
    "TraceError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
    "a_type",
    "calling_user",
    "did_you_mean",
    "noting",
    "printable",
    "printable_lines",
]


class UsageError(AotpackError):
    """A command-line or API value that is not accepted (exit code 2)."""


class TraceError(AotpackError):
    """The model could not be loaded or exported."""


class UnsupportedError(AotpackError):
    """Operators or dtypes that cannot be lowered; all of them are listed at once."""


class CompileError(AotpackError):
    """A kernel could not be compiled; has the compiler's message and a command to repeat it."""


@contextmanager
def calling_user(what: str, accepted: str) -> Iterator[None]:
    """Inside the block, an exception of the user's function becomes a UsageError.

    ``what`` names the function, ``accepted`` describes an accepted one.
    """
    try:
        yield
    except Exception as error:
        raise UsageError(
            f"{what}: {type(error).__name__}: {error}; accepted is {accepted}"
        ) from error


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Around a step: what is raised in it says where, and is otherwise what it was."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise
