"""Shared objects from checked bytes: no path is trusted, and none is taken for another."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aotpack.runtime.devices import shared_object
from aotpack.runtime.devices.shared_object import SharedObject, load_shared_object
from aotpack.runtime.errors import DeviceError, PackageError

TEXT = """
#include <stdlib.h>
int value(void) {{ return {}; }}
void *take(void) {{ return malloc(1); }}
"""


def compiled(folder: Path, number: int) -> bytes:
    (folder / "a.c").write_text(TEXT.format(number))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=folder, check=True)
    return (folder / "a.so").read_bytes()


def value(shared: SharedObject) -> int:
    address = shared.address("value")
    assert address is not None
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())


def test_bytes_are_loaded_whatever_the_path_holds(tmp_path: Path) -> None:
    codes = {number: compiled(tmp_path, number) for number in (11, 12, 13)}
    before = set(os.listdir("/proc/self/fd"))
    loaded = {number: load_shared_object(code, "lost.so") for number, code in codes.items()}
    assert {number: value(shared) for number, shared in loaded.items()} == {n: n for n in codes}
    assert load_shared_object(codes[11], "other.so") is loaded[11]
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert loaded[11].address("malloc") is None and loaded[11].address("lost") is None


def test_the_runtimes_of_two_packages_do_not_take_each_others_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each package has a runtime of its own; what they know of each other is the loader's."""
    codes = [compiled(tmp_path, number) for number in (61, 62, 63)]
    for number, code in zip((61, 62, 63), codes, strict=True):
        monkeypatch.setattr(shared_object, "_loaded", {})
        assert value(load_shared_object(code, "a.so")) == number


def test_without_files_in_memory_a_private_folder_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert value(load_shared_object(compiled(tmp_path, 21), "a.so")) == 21
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.c", "a.so"]


def test_a_folder_where_no_code_may_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> ctypes.CDLL:
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(shared_object.ctypes, "CDLL", refuse)
    with pytest.raises(DeviceError, match="mounted noexec: set TMPDIR to a folder"):
        load_shared_object(compiled(tmp_path, 31), "a.so")


def test_what_is_no_library_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"loading a.so: it is no shared object"):
        load_shared_object(b"#!/bin/sh", "a.so")
    code = bytearray(compiled(tmp_path, 41))
    code[18] ^= 0xFF  # the machine it is for
    with pytest.raises(DeviceError, match="the system refuses it .*for another machine"):
        load_shared_object(bytes(code), "a.so")


def test_no_file_is_written(tmp_path: Path) -> None:
    compiled(tmp_path, 51)
    program = (
        "import sys; from pathlib import Path\n"
        "from aotpack.runtime.checks.audit import watch\n"
        "from aotpack.runtime.devices.shared_object import load_shared_object\n"
        f"code = Path({str(tmp_path / 'a.so')!r}).read_bytes()\n"
        "with watch() as actions: load_shared_object(code, 'a.so')\n"
        "sys.exit(str(actions) if actions else 0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
