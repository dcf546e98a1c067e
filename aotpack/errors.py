"""The one tree of errors a user can meet. Every other exception is a defect of aotpack."""

from aotpack.runtime.errors import AotpackError, AssertionFailed, VerifyError

__all__ = [
    "AotpackError",
    "AssertionFailed",
    "CompileError",
    "TraceError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
]


class UsageError(AotpackError):
    """A command-line or API value that is not accepted (exit code 2)."""


class TraceError(AotpackError):
    """The model could not be loaded or exported."""


class UnsupportedError(AotpackError):
    """Operators or dtypes that cannot be lowered; all of them are listed at once."""


class CompileError(AotpackError):
    """A kernel could not be compiled; carries the compiler's words and a way to repeat it."""
