"""The errors that a packaged model raises. Any other exception is a defect of aotpack.

Every package exports its own: ``import PACKAGE; PACKAGE.ArgumentError``.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class AotpackError(Exception):
    """Input of the user, or a property of the machine, makes the operation impossible.

    The message names the operation, its object, the value found, the values accepted and the
    remedy. ``str(error)`` is complete; no traceback is needed to act on it.
    """


class ArgumentError(AotpackError):
    """A call does not fit the model's signature; nothing was launched."""


class PackageError(AotpackError):
    """A file of the package is missing, damaged, or of another schema."""


class WeightError(AotpackError):
    """Weights are missing or do not fit the model."""


class AssertionFailed(AotpackError):
    """A condition that the model asserts did not hold in a call.

    The results of that call, and the tensors and state it changed, are invalid.
    """


class DeviceError(AotpackError):
    """The driver, the GPU or its memory failed."""


class VerifyError(AotpackError):
    """The package gives a wrong answer on its golden data, or breaks the zero-compile promise."""


def did_you_mean(found: str, accepted: Iterable[str]) -> str:
    """The end of an error's sentence, such as ``"; did you mean 'build'?"``, or "".

    Case does not count.
    """
    by_case = {name.lower(): name for name in accepted}
    near = get_close_matches(found.lower(), by_case, 1)
    return f"; did you mean {by_case[near[0]]!r}?" if near else ""
