"""Compares a package's folder with what the build wrote: each file, none more, none less.

The hashes are those of SHA256SUMS, and of RECORD where an installer has written one. Bytecode must
be what Python makes of its source, for Python would run it in place of that.
"""

import base64
import csv
import marshal
import sys
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from ..errors import PackageError
from .checked import sha256_of
from .sums import SUMS, read_sums

_CACHE = "__pycache__"
_HEADER = 16
_BY_HASH = 1


def differences(folder: Path, distribution: str, beside: frozenset[str]) -> list[str]:
    """What is not as built, in words; ``beside`` are files that users may put there.

    ``distribution`` names the folder of the installer's files: NAME-VERSION.
    """
    sums = read_sums(folder)
    found = {path: _digest(folder / path) for path in sums}
    wrong = [
        f"{path} is {'missing' if digest is None else 'changed'}"
        for path, digest in found.items()
        if digest != sums[path]
    ]
    record = folder.parent / f"{distribution}.dist-info" / "RECORD"
    if record.is_file():
        wrong += _unlike_record(record, folder, found)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if path.parent.name == _CACHE:
            wrong += _wrong_bytecode(path, folder, sums)
        elif name not in sums and name != SUMS and name not in beside:
            wrong.append(f"{name} is not of the package")
    return sorted(wrong)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())


def _digest(path: Path) -> str | None:
    """The sha256 of a file; None if there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return sha256_of(file)


def _unlike_record(record: Path, folder: Path, found: dict[str, str | None]) -> Iterator[str]:
    """Files that RECORD lists with other hashes, and files that it lacks."""
    site = folder.parent
    listed: set[str] = set()
    try:
        rows = [*csv.reader(record.read_text(errors="replace").splitlines())]
    except csv.Error as error:
        raise PackageError(
            f"verifying {folder.name}: {record}: {error}. Reinstall the package."
        ) from error
    for row in rows:
        if len(row) != 3:
            raise PackageError(
                f"verifying {folder.name}: {record} has a line that is no record. Reinstall the "
                "package."
            )
        path, sha256 = row[0], row[1].partition("=")[2]
        inside, own = path.split("/", 1)[0], path.removeprefix(f"{folder.name}/")
        if inside == folder.name:
            listed.add(own)
        if not sha256 or inside not in (folder.name, record.parent.name):
            continue
        digest = found[own] if found.get(own) and own != path else _digest(site / path)
        if digest is None or _as_in_record(digest) != sha256:
            yield f"{path} is not what RECORD says"
    yield from (f"{path} is not in RECORD" for path in found if path not in listed)


def _as_in_record(digest: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()


def _wrong_bytecode(path: Path, folder: Path, sums: dict[str, str]) -> Iterator[str]:
    """A file of bytecode that this Python would run and that its source does not compile to."""
    stem, _, rest = path.name.partition(".")
    source = path.parent.parent / f"{stem}.py"
    name = path.relative_to(folder).as_posix()
    if path.suffix != ".pyc" or source.relative_to(folder).as_posix() not in sums:
        yield f"{name} is not of the package"
        return
    tag, _, level = rest.removesuffix(".pyc").partition(".opt-")
    if tag != sys.implementation.cache_tag or level not in ("", "1", "2"):
        return
    content, facts = path.read_bytes(), source.stat()
    if len(content) < _HEADER or content[:4] != MAGIC_NUMBER:
        return  # Python makes it anew
    stamp = (int(facts.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    stamp += (facts.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    if not content[4] & _BY_HASH and content[8:_HEADER] != stamp:
        return  # of an older source: so is this
    code = compile(
        source.read_bytes(), str(source), "exec", dont_inherit=True, optimize=int(level or 0)
    )
    try:
        is_same = marshal.loads(content[_HEADER:]) == code
    except (EOFError, TypeError, ValueError):
        is_same = False
    if not is_same:
        yield f"{name} is not the bytecode of {source.name}"
