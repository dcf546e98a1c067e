"""The errors that aotpack raises for users. Any other exception is a defect of aotpack."""

from collections.abc import Iterator
from contextlib import contextmanager

from aotpack.runtime.errors import AotpackError, AssertionFailed, VerifyError, did_you_mean

__all__ = [
    "AotpackError",
    "AssertionFailed",
    "CompileError",
    "TraceError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
    "calling_user",
    "did_you_mean",
    "noting",
]


class UsageError(AotpackError):
    """A command-line or API value that is not accepted (exit code 2)."""


class TraceError(AotpackError):
    """The model could not be loaded or exported.

    The message may quote the model, so characters that a terminal obeys are shown as escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(map(_printable, message)))


class UnsupportedError(AotpackError):
    """Operators or dtypes that cannot be lowered; all of them are listed at once."""


class CompileError(AotpackError):
    """A kernel could not be compiled; has the compiler's message and a command to repeat it."""


def _printable(character: str) -> str:
    is_plain = character.isprintable() or character in "\n\t"
    return character if is_plain else ascii(character)[1:-1]


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
