"""The run-time requirements of a shared object: libraries, and versions of their symbols."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from aotpack.precompile.elf import read_sections, text_at

_DYNAMIC = struct.Struct("<qQ")
_NEED = struct.Struct("<HHIII")  # version, count, file, first entry, next
_NEED_ENTRY = struct.Struct("<IHHII")  # hash, flags, other, name, next
_DT_NEEDED = 1
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Needs:
    """Names of libraries, and the newest glibc whose symbols are used; None for no glibc."""

    libraries: tuple[str, ...]
    glibc: tuple[int, int] | None


def read_needs(code: bytes) -> Needs:
    """The needs of a little-endian ELF64 shared object; ValueError if it is none."""
    try:
        sections = read_sections(code)
        names = sections[".dynstr"]
        libraries = tuple(
            text_at(names, value)
            for tag, value in _DYNAMIC.iter_unpack(sections[".dynamic"])
            if tag == _DT_NEEDED
        )
        versions = tuple(_versions(sections.get(".gnu.version_r", b""), names))
    except (struct.error, KeyError, ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"the shared object does not describe what it needs: {error}") from error
    matches = [match for version in versions if (match := _GLIBC.fullmatch(version))]
    glibc = max(((int(m[1]), int(m[2])) for m in matches), default=None)
    return Needs(libraries, glibc)


def _versions(section: bytes, names: bytes) -> Iterator[str]:
    """Every symbol version that is required of some library."""
    at = 0
    while at < len(section):
        _, count, _, first, following = _NEED.unpack_from(section, at)
        entry = at + first
        for _ in range(count):
            _, _, _, name, step = _NEED_ENTRY.unpack_from(section, entry)
            yield text_at(names, name)
            entry += step
        if not following:
            return
        at += following
