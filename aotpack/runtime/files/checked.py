"""Files of a package, read once and checked: what is used later are these bytes."""

import hashlib
import os
import stat
from pathlib import Path

from ..errors import PackageError

_LARGEST = 1 << 40


def read_checked(folder: Path, file: str, sha256: str) -> bytes:
    """The bytes of a file of the package, checked against the manifest."""
    content = read_bounded(folder / file, _LARGEST, f"loading the package in {folder}: {file}")
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise PackageError(
            f"loading the package in {folder}: {file} is damaged: its sha256 is {found[:16]}..., "
            f"the manifest says {sha256[:16]}... Nothing of it was used. Reinstall the package."
        )
    return content


def read_bounded(path: Path, most: int, doing: str) -> bytes:
    """The bytes of a regular file, at most ``most``: no pipe is waited for, no device read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise PackageError(f"{doing} is no regular file. Reinstall the package.")
            if facts.st_size > most:
                raise PackageError(
                    f"{doing} has {facts.st_size:,} bytes; accepted: {most:,} at most. Reinstall "
                    "the package."
                )
            return file.read(facts.st_size + 1)
    except OSError as error:
        raise PackageError(
            f"{doing} cannot be read ({error.strerror}); accepted: the folder of a package that "
            "aotpack emitted. Reinstall the package."
        ) from None
