"""The errors that a packaged model raises. Any other exception is a defect of aotpack.

Every package exports classes of its own: ``import PACKAGE; PACKAGE.ArgumentError``. Each class has
an ``aotpack_kind``, and ``isinstance`` takes equal kinds for one: the errors of another package and
of aotpack are instances of ``PACKAGE.AotpackError``. But ``except PACKAGE.AotpackError`` asks for
base classes alone, and so catches the errors of that package.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar

_BEYOND_ASCII = re.compile(r"[^ -~]")


class _Kinds(type):
    """Classes that count as bases of those with an equal ``aotpack_kind`` in other packages.

    A class that a user derives has no kind in its own body: it has its own instances alone.
    """

    def __subclasscheck__(cls, subclass: Any) -> bool:
        if super().__subclasscheck__(subclass):
            return True
        kind = vars(cls).get("aotpack_kind")
        bases = (vars(base) for base in getattr(subclass, "__mro__", ()))
        return kind is not None and any(base.get("aotpack_kind") == kind for base in bases)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or cls.__subclasscheck__(type(instance))


class AotpackError(Exception, metaclass=_Kinds):
    """Input of the user, or a property of the machine, makes the operation impossible.

    The message names the operation, its object, the value found, the values accepted and the
    remedy. ``str(error)`` is complete; no traceback is needed to act on it. To handle the errors of
    several packages at once, catch ``Exception`` and ask ``isinstance(error, AotpackError)``.

    The message may quote files and models, so characters that a terminal obeys become escapes.
    """

    aotpack_kind: ClassVar[str] = "error"

    def __init__(self, message: str = "") -> None:
        super().__init__(printable_lines(message))


class ArgumentError(AotpackError):
    """A call does not fit the model's signature, or a value is not for ``load``: nothing ran."""

    aotpack_kind = "argument"


class ClosedError(AotpackError):
    """The model was closed; it is to be loaded again."""

    aotpack_kind = "closed"


class PackageError(AotpackError):
    """A file of the package is missing, damaged, or of another schema."""

    aotpack_kind = "package"


class WeightError(AotpackError):
    """Weights are missing or do not fit the model."""

    aotpack_kind = "weight"


class AssertionFailed(AotpackError):
    """A condition that the model asserts did not hold in a call.

    The results of that call, and the tensors and state it changed, are invalid.
    """

    aotpack_kind = "assertion"


class DeviceError(AotpackError):
    """The driver, the GPU or its memory failed."""

    aotpack_kind = "device"


class VerifyError(AotpackError):
    """The package gives a wrong answer on its golden data, or breaks the zero-compile promise."""

    aotpack_kind = "verify"


def printable(text: str) -> str:
    """Text from outside in one line: control characters and those that turn the direction of
    writing are shown as escapes.
    """
    return _BEYOND_ASCII.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Text from outside that may have several lines, and tabs."""
    return _BEYOND_ASCII.sub(lambda one: one[0] if one[0] in "\n\t" else _escaped(one), text)


def _escaped(one: "re.Match[str]") -> str:
    return one[0] if one[0].isprintable() else ascii(one[0])[1:-1]


def a_type(value: Any) -> str:
    """The type of a value with its article: "an int", "a Tensor"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' or name == 'ndarray' else 'a'} {name}"


def did_you_mean(found: str, accepted: Iterable[str]) -> str:
    """The end of an error's sentence, such as ``"; did you mean 'build'?"``, or "".

    Case does not count.
    """
    by_case = {name.lower(): name for name in accepted}
    near = get_close_matches(found.lower(), by_case, 1)
    return f"; did you mean {by_case[near[0]]!r}?" if near else ""
