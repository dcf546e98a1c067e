"""What an ELF64 file says of itself: machine, sections, functions, registers of kernels."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_INFO_RECORD = struct.Struct("<BBH")  # format, attribute, byte count (or an inline value)
_SIZED_VALUE = 4  # the record format that is followed by its bytes
_CODE = 2  # the type of symbols that are functions
_EM_CUDA = 190
_CUDA_13_ABI = 8  # from here on the architecture stands in the second byte of the flags
_MACHINES = {62: "x86_64", 183: "aarch64"}
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
    except (struct.error, KeyError, IndexError, OverflowError) as error:
        raise ValueError(f"the cubin does not describe the kernel {symbol!r}") from error


def read_machine(code: bytes) -> str:
    """The machine of an ELF64 file: "x86_64", "aarch64", "sm_90" of a cubin, or its number."""
    header = _read_header(code)
    if header[2] != _EM_CUDA:
        return _MACHINES.get(header[2], str(header[2]))
    arch = header[7] >> 8 if code[8] >= _CUDA_13_ABI else header[7]
    return f"sm_{arch & 0xFF}"


def read_exports(code: bytes) -> frozenset[str]:
    """The functions that a shared object offers by name; ValueError if it is none."""
    try:
        sections = read_sections(code)
        names = sections[".dynstr"]
        symbols = list(_SYMBOL.iter_unpack(sections[".dynsym"]))
        defined = [name for name, info, _, section, *_ in symbols if section and info & 15 == _CODE]
        return frozenset(text_at(names, name) for name in defined)
    except (struct.error, KeyError, IndexError, OverflowError, ValueError) as error:
        raise ValueError(f"the shared object does not describe what it offers: {error}") from error


def read_function_sizes(code: bytes) -> dict[str, int]:
    """The bytes of machine code of each function; of the exported ones if the file is stripped."""
    try:
        sections = read_sections(code)
        table, names = (".symtab", ".strtab") if ".symtab" in sections else (".dynsym", ".dynstr")
        return {
            text_at(sections[names], name): size
            for name, info, _, section, _, size in _SYMBOL.iter_unpack(sections[table])
            if section and info & 15 == _CODE
        }
    except (struct.error, KeyError, IndexError, OverflowError, ValueError) as error:
        raise ValueError(f"the shared object does not describe its functions: {error}") from error


def read_sections(code: bytes) -> dict[str, bytes]:
    """Section contents by name; ValueError, IndexError or struct.error if it is no ELF64."""
    header = _read_header(code)
    start, entry, count, names_index = header[6], header[11], header[12], header[13]
    raw = [_SECTION.unpack_from(code, start + entry * number) for number in range(count)]
    names = code[raw[names_index][4] :]
    return {text_at(names, name): code[at : at + size] for name, _, _, _, at, size, *_ in raw}


def _read_header(code: bytes) -> tuple[Any, ...]:
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < _HEADER.size:
        raise ValueError("not a little-endian ELF64 file")
    return _HEADER.unpack_from(code)


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
