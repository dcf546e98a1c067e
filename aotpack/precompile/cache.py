"""Compiled kernels by content. Safe under concurrent builds; a damaged entry counts as absent.

Entries go into wheels, and none can vouch for itself. So what counts is who can write them: the
folder's owners and modes are checked as ssh checks those of its keys. What a reader can tell from
an entry is checked too: its types, and by the caller its code.
"""

import grp
import hashlib
import json
import os
import pwd
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TypeAlias

from aotpack.errors import UsageError
from aotpack.stages import Binary

Check: TypeAlias = Callable[[Binary], object]
"""Raises ValueError for a binary that is not the one asked for."""


def _schema() -> str:
    """A name for the form of entries: another version's entries lie in another folder."""
    form = [(field.name, str(field.type)) for field in fields(Binary)]
    return hashlib.sha256(repr(form).encode()).hexdigest()[:12]


class KernelCache:
    """Binaries in a folder, by key; without a folder nothing is kept.

    UsageError for a folder that others can write to.
    """

    def __init__(self, folder: Path | None) -> None:
        self._place = None if folder is None else folder / "kernels" / _schema()
        if folder is not None and self._place is not None:
            check_folder(folder, self._place)

    def get(self, key: str, check: Check) -> Binary | None:
        """The binary stored under ``key``, or None; an entry that fails the check is removed."""
        if self._place is None:
            return None
        path = self._place / key
        try:
            binary = _decode(_read(path))
            check(binary)
        except OSError:
            return None
        except (ValueError, TypeError, RecursionError):
            with suppress(OSError):
                path.unlink()
            return None
        return binary

    def put(self, key: str, binary: Binary) -> None:
        """Store a binary; a folder that cannot be written to only makes builds slower."""
        if self._place is None:
            return
        path = self._place / key
        try:
            for folder in (*reversed(self._place.parents), self._place):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(binary))
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def check_folder(named: Path, folder: Path) -> None:
    """Refuse a cache that anyone but this user and root can write to, or could replace."""
    try:
        own = named.resolve()
        passed = list(_folders_on(Path.cwd() / folder))
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise UsageError(f"the kernel cache {named}: {error}; {_ADVICE}") from None
    for place, found in passed:
        fault = _fault(found, is_parent=own not in (place, *place.parents))
        if fault:
            is_ours = found.st_uid in (0, os.geteuid())
            remedy = f"take that right away (chmod go-w {place}), " if is_ours else ""
            raise UsageError(
                f"the kernel cache {named} is not safe: {place} {fault}, and its entries go into "
                f"wheels: {remedy}{_ADVICE}"
            )


_ADVICE = "name another folder in AOTPACK_CACHE, or set it to off"
_MOST_LINKS = 40  # as in the kernel


def _folders_on(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every existing folder on the way to an absolute path, those behind links too."""
    place, ahead, links = Path(path.root), list(reversed(path.parts[1:])), 0
    while True:
        yield place, place.stat()
        if not ahead:
            return
        step = place / ahead.pop()
        if step.is_symlink():
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{path} leads through more than {_MOST_LINKS} links")
            target = step.readlink()
            place = Path(target.root) if target.is_absolute() else place
            ahead += reversed(target.parts[target.is_absolute() :])
        elif step.name == "..":
            place = place.parent
        elif not step.is_dir():
            return
        else:
            place = step


def _fault(found: os.stat_result, *, is_parent: bool) -> str:
    """Why others can change what lies here; "" where they cannot.

    Whoever may write to a parent can replace the folder in it, unless the parent is sticky (/tmp).
    """
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to {_user(found.st_uid)}"
    is_sticky = is_parent and bool(found.st_mode & stat.S_ISVTX)
    if found.st_mode & stat.S_IWOTH and not is_sticky:
        return f"can be written to by everyone (mode {stat.S_IMODE(found.st_mode):04o})"
    if found.st_mode & stat.S_IWGRP and not is_sticky and not _is_own_group(found.st_gid):
        return f"can be written to by its group (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _is_own_group(group: int) -> bool:
    """True for a group of this user alone, as many systems make one for each user."""
    try:
        name, known = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return known.gr_name == name and set(known.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user {number}"


def _read(path: Path) -> bytes:
    """The bytes of an entry of this user or root; ValueError for any other file."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or _fault(found, is_parent=False):
            raise ValueError("not a file that this user wrote")
        return file.read()


def _encode(binary: Binary) -> bytes:
    """A digest, a line of launch metadata, the code."""
    facts = {name: value for name, value in asdict(binary).items() if name != "code"}
    body = json.dumps(facts, sort_keys=True).encode() + b"\n" + binary.code
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _decode(entry: bytes) -> Binary:
    """The binary of an entry; ValueError or TypeError if it is damaged."""
    digest, _, body = entry.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("the digest does not fit")
    facts, _, code = body.partition(b"\n")
    binary = Binary(code=code, **json.loads(facts))
    for field in fields(Binary):
        value = getattr(binary, field.name)
        if type(value) is not field.type or (isinstance(value, int) and value < 0):
            raise ValueError(f"{field.name} is {value!r}")
    return binary
