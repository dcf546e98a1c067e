"""The source text and the machine code of each kernel of a package.

A GPU's kernel has a file of its own. Those for processors share one: functions that all use, then
for each kernel its own functions, of which one is exported.
"""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

from aotpack.commands.wheel_file import damaged, read_entry
from aotpack.errors import printable_lines
from aotpack.precompile.elf import read_function_sizes
from aotpack.runtime.manifest import Manifest
from aotpack.target import CPU

_KERNEL = re.compile(r"^// template: kernel_", re.MULTILINE)
_EXPORTED = re.compile(r"^AOT_EXPORT int (\w+)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sources:
    """The text of each kernel, and by file the text that its kernels have in common."""

    kernels: Mapping[str, str]
    shared: Mapping[str, str]


def read_sources(manifest: Manifest, archive: zipfile.ZipFile, package: str) -> Sources:
    """The sources of all kernels; each file is read once."""
    kernels: dict[str, str] = {}
    shared: dict[str, str] = {}
    for file in sorted({kernel.source for kernel in manifest.kernels.values()}):
        text = _text(archive, f"{package}/{file}")
        names = [name for name, kernel in manifest.kernels.items() if kernel.source == file]
        own = _split(text) if len(names) > 1 or file.endswith(".c") else {}
        if not own.keys() >= {*names}:
            kernels |= dict.fromkeys(names, text)
            continue
        kernels |= {name: own[name] for name in names}
        shared[file] = text[: next(_KERNEL.finditer(text)).start()]
    return Sources(kernels, shared)


def _text(archive: zipfile.ZipFile, path: str) -> str:
    try:
        return printable_lines(read_entry(archive, path).decode())
    except UnicodeDecodeError as error:
        raise damaged(archive, f"{path} is no text: {error.reason}") from error


def _split(text: str) -> dict[str, str]:
    """The text of each kernel in a file of several."""
    starts = [match.start() for match in _KERNEL.finditer(text)]
    found: dict[str, str] = {}
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        found |= dict.fromkeys(_EXPORTED.findall(part), part.rstrip() + "\n")
    return found


def _function_sizes(archive: zipfile.ZipFile, path: str) -> dict[str, int]:
    try:
        return read_function_sizes(read_entry(archive, path))
    except ValueError as error:
        raise damaged(archive, f"{path}: {error}") from error


def read_host_bytes(manifest: Manifest, archive: zipfile.ZipFile, package: str) -> dict[str, int]:
    """The bytes of machine code of each kernel for processors, those of its parts included."""
    found: dict[str, int] = {}
    sizes: dict[str, dict[str, int]] = {}
    for name, kernel in manifest.kernels.items():
        binary = kernel.binaries.get(str(CPU))
        if binary is None:
            continue
        if binary.file not in sizes:
            sizes[binary.file] = _function_sizes(archive, f"{package}/{binary.file}")
        found[name] = sum(
            size
            for function, size in sizes[binary.file].items()
            if function == name or function.startswith((f"{name}_", f"{name}."))
        )
    return found
