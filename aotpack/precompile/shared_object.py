"""What a shared object needs of the system it runs on: libraries, and versions of their symbols."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
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
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < _HEADER.size:
        raise ValueError("not a little-endian ELF64 file")
    try:
        sections = _sections(code)
        names = sections[".dynstr"]
        libraries = tuple(
            _text(names, value)
            for tag, value in _DYNAMIC.iter_unpack(sections[".dynamic"])
            if tag == _DT_NEEDED
        )
        versions = tuple(_versions(sections.get(".gnu.version_r", b""), names))
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise ValueError("the shared object does not describe what it needs") from error
    matches = [match for version in versions if (match := _GLIBC.fullmatch(version))]
    glibc = max(((int(m[1]), int(m[2])) for m in matches), default=None)
    return Needs(libraries, glibc)


def _sections(code: bytes) -> dict[str, bytes]:
    header = _HEADER.unpack_from(code)
    start, entry, count, names_index = header[6], header[11], header[12], header[13]
    raw = [_SECTION.unpack_from(code, start + entry * number) for number in range(count)]
    names = code[raw[names_index][4] :]
    return {_text(names, name): code[at : at + size] for name, _, _, _, at, size, *_ in raw}


def _versions(section: bytes, names: bytes) -> Iterator[str]:
    """Every symbol version that is asked of some library."""
    at = 0
    while at < len(section):
        _, count, _, first, following = _NEED.unpack_from(section, at)
        entry = at + first
        for _ in range(count):
            _, _, _, name, step = _NEED_ENTRY.unpack_from(section, entry)
            yield _text(names, name)
            entry += step
        if not following:
            return
        at += following


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
