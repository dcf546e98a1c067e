"""The table of a shared object: what it defines and exports, and damaged ones."""

import subprocess
from pathlib import Path

import pytest

from aotpack.runtime.files.exported import exported_functions

TEXT = """
#include <stdlib.h>
int data = 5;
static int hidden(int x) { return x + 1; }
int add(int x) { return hidden(x) + data; }
void *make(void) { return malloc(8); }
__attribute__((visibility("hidden"))) int inner(void) { return 1; }
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder: Path = tmp_path_factory.mktemp("exported")
    (folder / "a.c").write_text(TEXT)
    command = ["cc", "-shared", "-fPIC", "-o", "a.so", "a.c"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "a.so").read_bytes()


def test_functions_of_its_own_alone(code: bytes) -> None:
    found = exported_functions(code)
    assert {"add", "make"} <= found
    assert found.isdisjoint({"malloc", "data", "hidden", "inner"})


@pytest.mark.parametrize(
    "damage", [b"", b"\x7fELF", b"#!/bin/sh\n" * 50, b"\x7fELF\2\1" + bytes(58)]
)
def test_what_is_no_shared_object(damage: bytes) -> None:
    with pytest.raises(ValueError, match="no little-endian ELF64 file|sections have 0 bytes"):
        exported_functions(damage)


def test_tables_that_lead_outside_are_refused(code: bytes) -> None:
    for cut in range(64, len(code), 997):
        with pytest.raises(ValueError, match="damaged|has no end"):
            exported_functions(code[:cut])
    moved = bytearray(code)
    moved[0x28:0x30] = (1 << 60).to_bytes(8, "little")  # where the sections begin
    with pytest.raises(ValueError, match="damaged"):
        exported_functions(bytes(moved))
