"""Files of a package, read once and checked: what is used later are these bytes."""

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import IO, NamedTuple

from ..errors import PackageError

_LARGEST = 1 << 40
_PIECE = 1 << 22


def read_checked(folder: Path, file: str, sha256: str) -> bytes:
    """The bytes of a file of the package, checked against the manifest."""
    content = read_bounded(folder / file, _LARGEST, f"loading the package in {folder}: {file}")
    check_sum(folder, file, content, sha256, "the manifest")
    return content


def check_sum(folder: Path, file: str, content: bytes, sha256: str, where: str) -> None:
    """Refuse bytes that have not the hash that is recorded ``where``."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise PackageError(
            f"loading the package in {folder}: {file} is damaged: its sha256 is {found[:16]}..., "
            f"{where} says {sha256[:16]}... Nothing of it was used. Reinstall the package."
        )


def sha256_of(file: IO[bytes]) -> str:
    """The sha256 of what is left to read, a piece at a time; ``hashlib.file_digest`` is newer."""
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def read_bounded(path: Path, most: int, doing: str) -> bytes:
    """The bytes of a regular file, at most ``most``: no pipe is waited for, no device read."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            size = size_of(file, path)
            if size > most:
                raise PackageError(
                    f"{doing} has {size:,} bytes; accepted: {most:,} at most. Reinstall the "
                    "package."
                )
            return file.read(size + 1)
    except NotADirectoryError:
        raise PackageError(
            f"{doing} lies in a file, such as a wheel that Python's path leads to: install the "
            "wheel; it cannot run from a zip."
        ) from None
    except OSError as error:
        raise PackageError(
            f"{doing} cannot be read ({error.strerror}); accepted: the folder of a package that "
            "aotpack emitted. Reinstall the package."
        ) from None


def open_at_once(path: str, flags: int) -> int:
    """Opens without waiting for the other end of a pipe; the opener for ``open``."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class Identity(NamedTuple):
    """Which file was opened, and its size then."""

    device: int
    inode: int
    size: int


def size_of(file: IO[bytes], path: Path) -> int:
    """The size of an open file; OSError if it is a pipe or a device."""
    return identity_of(file, path).size


def identity_of(file: IO[bytes], path: Path) -> Identity:
    """What tells an open file from another; OSError if it is a pipe or a device."""
    facts = os.fstat(file.fileno())
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return Identity(facts.st_dev, facts.st_ino, facts.st_size)
