"""Signatures on the command line: the module that makes them, and what a good one says."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from aotpack.errors import UsageError, printable


def signing() -> ModuleType:
    """``emit.signature``; UsageError where its library is not installed."""
    try:
        return import_module("aotpack.emit.signature")
    except ImportError as error:
        if error.name is None or not error.name.startswith("cryptography"):
            raise
        raise UsageError(
            "signatures need the library cryptography, which is not installed: "
            "pip install 'aotpack[sign]'"
        ) from error


@contextmanager
def signed(wheel: Path, key: Path | None) -> Iterator[Path]:
    """The file to read a wheel from: the wheel, or with a key a copy whose signature fits it.

    Nobody else can change the copy after the check. Prints who signed what; VerifyError if the
    signature does not fit.
    """
    if key is None:
        yield wheel
        return
    check = signing().check_signature
    with tempfile.TemporaryDirectory(prefix="aotpack-") as place:
        copy = Path(place, "wheel")
        try:
            shutil.copyfile(wheel, copy)
        except OSError as error:
            raise UsageError(
                f"verifying {wheel}: the file cannot be copied to a temporary folder: "
                f"{error.strerror}; check the file, and the space in the folder"
            ) from error
        statement, name = check(wheel, key, copy)
        print(f"signed with the key {name}\nmade of {', '.join(map(printable, statement.made_of))}")
        yield copy
