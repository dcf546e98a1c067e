"""Signatures on the command line: the module that makes them, and what a good one says."""

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


def told_signature(wheel: Path, key: Path) -> str:
    """Check the signature of a wheel; says who signed what. VerifyError if it does not fit."""
    statement, name = signing().check_signature(wheel, key)
    return f"signed with the key {name}\nmade of {', '.join(map(printable, statement.made_of))}"
