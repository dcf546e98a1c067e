"""Registers and local memory of a kernel, read from a cubin's ELF64 headers."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_INFO_RECORD = struct.Struct("<BBH")  # format, attribute, byte count (or an inline value)
_SIZED_VALUE = 4  # the record format that is followed by its bytes
_REGISTERS, _FRAME_SIZE = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE


@dataclass(frozen=True, slots=True)
class Resources:
    """Per thread: 32-bit registers, and bytes of local memory (register spills)."""

    registers: int
    local_bytes: int


def read_resources(cubin: bytes, symbol: str) -> Resources:
    """The resources of one kernel; ValueError if the bytes are no cubin with it."""
    try:
        sections = read_sections(cubin)
        index = _symbol_index(sections, symbol)
        facts = dict(_function_facts(sections[".nv.info"], index))
        return Resources(facts[_REGISTERS], facts[_FRAME_SIZE])
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError(f"the cubin does not describe the kernel {symbol!r}") from error


def read_sections(code: bytes) -> dict[str, bytes]:
    """Section contents by name; ValueError, IndexError or struct.error if it is no ELF64."""
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < _HEADER.size:
        raise ValueError("not a little-endian ELF64 file")
    header = _HEADER.unpack_from(code)
    start, entry, count, names_index = header[6], header[11], header[12], header[13]
    raw = [_SECTION.unpack_from(code, start + entry * number) for number in range(count)]
    names = code[raw[names_index][4] :]
    return {text_at(names, name): code[at : at + size] for name, _, _, _, at, size, *_ in raw}


def text_at(table: bytes, at: int) -> str:
    """The text at an offset of a table of names."""
    return table[at : table.index(b"\0", at)].decode()


def _symbol_index(sections: dict[str, bytes], symbol: str) -> int:
    for index, entry in enumerate(_SYMBOL.iter_unpack(sections[".symtab"])):
        if text_at(sections[".strtab"], entry[0]) == symbol:
            return index
    raise KeyError(symbol)


def _function_facts(info: bytes, index: int) -> Iterator[tuple[int, int]]:
    """(attribute, value) of the records for the symbol ``index``."""
    at = 0
    while at < len(info):
        kind, attribute, size = _INFO_RECORD.unpack_from(info, at)
        at += _INFO_RECORD.size
        if kind != _SIZED_VALUE:
            continue
        if size == 8:
            symbol, value = struct.unpack_from("<II", info, at)
            if symbol == index:
                yield attribute, value
        at += size
