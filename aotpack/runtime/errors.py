"""The errors a user of a packaged model can meet. Anything else raised is a defect of aotpack.

Every package exports its own: ``import PACKAGE; PACKAGE.ArgumentError``.
"""


class AotpackError(Exception):
    """Something the user gave, or the machine lacks, stops the work.

    The message says what was being done, to which thing, what was found, what is accepted,
    and what to do. ``str(error)`` is complete; no traceback is needed to act on it.
    """


class ArgumentError(AotpackError):
    """A call does not fit the model's signature; nothing was launched."""


class PackageError(AotpackError):
    """A file of the package is missing, damaged, or of another schema."""


class WeightError(AotpackError):
    """Weights are missing or do not fit the model."""


class AssertionFailed(AotpackError):
    """A condition that the model asserts did not hold in a call.

    What that call returned or changed in place, state too, is not to be trusted.
    """


class DeviceError(AotpackError):
    """The driver, the GPU or its memory stops the work."""


class VerifyError(AotpackError):
    """The package gives a wrong answer on its golden data, or breaks the zero-compile promise."""
