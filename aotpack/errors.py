"""The one tree of errors a user can meet. Every other exception is a defect of aotpack."""


class AotpackError(Exception):
    """Something the user gave, or the machine lacks, stops the work.

    The message says what was being done, to which thing, what was found, what is accepted,
    and what to do. ``str(error)`` is complete; no traceback is needed to act on it.
    """


class UsageError(AotpackError):
    """A command-line or API value that is not accepted (exit code 2)."""


class TraceError(AotpackError):
    """The model could not be loaded or exported."""


class UnsupportedError(AotpackError):
    """Operators or dtypes that cannot be lowered; all of them are listed at once."""


class CompileError(AotpackError):
    """A kernel could not be compiled; carries the compiler's words and a way to repeat it."""


class VerifyError(AotpackError):
    """A built package gives a wrong answer, or breaks the zero-compile promise."""
