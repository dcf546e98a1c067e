"""SHA256SUMS: the hash of every other file of a package, in the form of the program sha256sum."""

import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import PackageError
from .checked import read_bounded
from .kinds import read_path
from .schema import Mismatch

SUMS = "SHA256SUMS"
_LARGEST = 1 << 26
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def sums_text(digests: Mapping[str, str]) -> bytes:
    """The file's text, for hashes by path."""
    return "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(digests.items())).encode()


def read_sums(folder: Path) -> dict[str, str]:
    """The hash of each file by its path in the package."""
    doing = f"loading the package in {folder}: {SUMS}"
    found: dict[str, str] = {}
    content = read_bounded(folder / SUMS, _LARGEST, doing)
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        try:
            path = read_path(match[2] if match else None)
        except Mismatch:
            path = ""
        if match is None or not path or path in found:
            raise PackageError(
                f"{doing}, line {number}, is not a hash and another file's path. The package is "
                "damaged: reinstall it."
            )
        found[path] = match[1]
    return found
