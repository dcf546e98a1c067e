"""Loads a shared object from bytes that have been checked, not from a file that may change.

The bytes go into a sealed file in memory, or into a private folder where the system has none. The
same bytes are loaded once: the loader keeps them until the process ends.
"""

import ctypes
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DeviceError, PackageError
from ..files.exported import exported_functions

_EXECUTABLE = 0x10  # MFD_EXEC, which systems with vm.memfd_noexec ask for
_loaded: dict[bytes, "SharedObject"] = {}


class SharedObject:
    """A loaded library with the functions of its own table."""

    def __init__(self, library: ctypes.CDLL, functions: frozenset[str]) -> None:
        self.library, self._functions = library, functions

    def address(self, function: str) -> int | None:
        """Where an exported function begins; None if this library defines none of that name."""
        if function not in self._functions:  # the loader would look in other libraries too
            return None
        return ctypes.cast(getattr(self.library, function), ctypes.c_void_p).value


def load_shared_object(code: bytes, name: str) -> SharedObject:
    """The library of these bytes; ``name`` is its path in errors."""
    key = hashlib.sha256(code).digest()
    if key not in _loaded:
        try:
            functions = exported_functions(code)
        except ValueError as error:
            raise PackageError(
                f"loading {name}: it is no shared object: {error}. The package is damaged: "
                "reinstall it."
            ) from None
        _loaded.setdefault(key, SharedObject(_load(code, name), functions))
    return _loaded[key]


def _load(code: bytes, name: str) -> ctypes.CDLL:
    try:
        with _file_of(code) as path:
            return ctypes.CDLL(path)
    except OSError as error:
        raise DeviceError(
            f"loading {name}: the system refuses it ({error}). {_advice(error)}"
        ) from None


def _advice(error: OSError) -> str:
    if "failed to map segment" in str(error):
        return (
            "It may not run code from memory, nor from its temporary folder, which is mounted "
            "noexec: set TMPDIR to a folder where programs may run."
        )
    return (
        "The wheel is for another machine, or an older C library is installed here than its tag "
        "asks for."
    )


@contextmanager
def _file_of(code: bytes) -> Iterator[str]:
    """A path under which the loader finds the bytes, and nobody else can change them."""
    number = _memory_file()
    if number is None:
        yield from _private_copy(code)
        return
    try:
        rest = memoryview(code)
        while rest:
            rest = rest[os.write(number, rest) :]
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
        # The loader takes a path that it knows for the library of before, though by now the number
        # is that of another file, perhaps of another package. So the path spells the file's inode.
        inode = f"{os.fstat(number).st_ino:b}"
        yield f"/proc/self/fd{inode.replace('1', '/.').replace('0', '/')}/{number}"
    finally:
        os.close(number)


def _private_copy(code: bytes) -> Iterator[str]:
    """A file in a folder of this user's alone, for as long as it is being loaded."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp", f"aotpack-{os.urandom(16).hex()}")
    folder.mkdir(mode=0o700)
    file = folder / "kernels.so"
    try:
        file.write_bytes(code)
        yield str(file)
    finally:
        file.unlink(missing_ok=True)
        folder.rmdir()


def _memory_file() -> int | None:
    """A file without a name; None where the system has none or none may hold code."""
    for flags in (_EXECUTABLE, 0):  # older systems refuse what they do not know
        try:
            return os.memfd_create("kernels.so", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
        except (AttributeError, OSError):
            continue
    return None
