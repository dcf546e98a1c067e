"""Temporary folders of a build: private, gone at its end; those of killed builds are removed.

A build holds a lock on its folder (``flock``), which ends with the process however it ends. So a
folder without a lock is left over, whatever machine, container or process made it.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aotpack.errors import AotpackError

_PREFIX = "aotpack-build-"


@contextmanager
def temporary_folder(doing: str) -> Iterator[Path]:
    """A folder below TMPDIR; an OSError of the system is told as a failure to write there."""
    try:
        parent = Path(tempfile.gettempdir())
    except OSError as error:
        raise AotpackError(
            f"{doing}: no folder for temporary files can be written to ({error.strerror}); name "
            "one in TMPDIR"
        ) from error
    try:
        with locked_folder(parent, _PREFIX) as folder:
            yield folder
    except OSError as error:
        if error.errno is None:
            raise  # by a program, as the TimeoutError of an alarm
        advice = "make room there, or name" if is_full(error) else "name"
        raise AotpackError(
            f"{doing}: writing temporary files into {parent} failed: {error.strerror or error}; "
            f"{advice} another folder in TMPDIR"
        ) from error


@contextmanager
def locked_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in ``parent``; first removes those of the same prefix that nobody holds."""
    remove_left_over(parent, prefix)
    folder, handle = _make(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_left_over(parent: Path, prefix: str) -> None:
    """Remove this user's folders in ``parent`` of which no process holds the lock."""
    with suppress(OSError):
        for entry in list(os.scandir(parent)):
            if entry.name.startswith(prefix):
                with suppress(OSError):
                    _remove_unheld(Path(entry.path))


def is_full(error: OSError) -> bool:
    """True where there is no room: a full disk, a quota, a limit on sizes of files."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _remove_unheld(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and its lock; tries again where another build takes it for left over."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if _is_locked(handle) and folder.exists():
                return folder, handle
            os.close(handle)


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody can take it for left over either
        return True
    return True
