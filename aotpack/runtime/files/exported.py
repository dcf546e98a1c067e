"""The functions that a shared object exports, from the table of its own (ELF64)."""

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_DYNAMIC_SYMBOLS = 11
_FUNCTION = 2
_GLOBAL = (1, 2)  # global and weak
_LONGEST = 4096
_DAMAGES = (  # what offsets and names of a damaged table raise
    struct.error,
    IndexError,
    OverflowError,
    RuntimeError,
    StopIteration,
    UnicodeDecodeError,
)


def exported_functions(code: bytes) -> frozenset[str]:
    """Their names; ValueError if the bytes are no shared object."""
    try:
        return frozenset(_functions(code))
    except _DAMAGES as error:
        raise ValueError(f"its tables are damaged ({error})") from None


def _functions(code: bytes) -> Iterator[str]:
    if not code.startswith(_MAGIC):
        raise ValueError("it is no little-endian ELF64 file")
    _, _, _, _, _, _, start, _, _, _, _, size, count, _ = _HEADER.unpack_from(code)
    if size != _SECTION.size:
        raise ValueError(f"its sections have {size} bytes")
    sections = [_SECTION.unpack_from(code, start + number * size) for number in range(count)]
    _, _, _, _, at, length, link, *_ = next(one for one in sections if one[1] == _DYNAMIC_SYMBOLS)
    _, _, _, _, names, names_length, *_ = sections[link]
    table = code[names : names + names_length]
    for entry in range(at, at + length, _SYMBOL.size):
        name, info, _, section, _, _ = _SYMBOL.unpack_from(code, entry)
        if info & 15 == _FUNCTION and info >> 4 in _GLOBAL and section:
            yield _text(table, name)


def _text(table: bytes, at: int) -> str:
    end = table.find(b"\0", at, at + _LONGEST)
    if end < 0:
        raise ValueError("a name has no end")
    return table[at:end].decode()
