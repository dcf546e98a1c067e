import struct
import subprocess
from pathlib import Path

import pytest

from aotpack.precompile.elf import Resources, read_function_sizes, read_resources
from aotpack.precompile.host import find_compiler

SPILLING = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {{
    .local .align 4 .b8 room[{bytes}];
    .reg .b32 %r<3>;
    .reg .b64 %d<6>;
    ld.param.u64 %d0, [p];
    ld.global.u32 %r0, [%d0];
    mov.u64 %d1, room;
    mul.wide.u32 %d2, %r0, 4;
    add.u64 %d3, %d1, %d2;
    st.local.u32 [%d3], %r0;
    ld.local.u32 %r1, [%d1+8];
    st.global.u32 [%d0], %r1;
    ret;
}}
"""


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A kernel with 256 bytes of local memory, assembled."""
    from triton import knobs

    folder = tmp_path_factory.mktemp("elf")
    (folder / "k.ptx").write_text(SPILLING.format(bytes=256))
    command = [knobs.nvidia.ptxas.path, "-arch=sm_80", folder / "k.ptx", "-o", folder / "k.cubin"]
    subprocess.run(command, check=True)
    return (folder / "k.cubin").read_bytes()


@pytest.mark.row("C:L5")
def test_registers_and_local_memory_are_read(cubin: bytes) -> None:
    resources = read_resources(cubin, "k")
    assert resources.local_bytes == 256
    assert 0 < resources.registers <= 255
    assert resources == Resources(resources.registers, 256)


def test_an_unknown_kernel_is_refused(cubin: bytes) -> None:
    with pytest.raises(ValueError, match="does not describe the kernel 'other'"):
        read_resources(cubin, "other")


@pytest.mark.parametrize("damage", [b"", b"MZ", struct.pack("<16s", b"\x7fELF\x01\x01")])
def test_other_files_are_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match="not a little-endian ELF64 file"):
        read_resources(damage, "k")


def test_a_cut_file_is_refused(cubin: bytes) -> None:
    with pytest.raises(ValueError, match="does not describe"):
        read_resources(cubin[:100], "k")


@pytest.mark.parametrize("flags", [[], ["-Wl,-s"]], ids=["whole", "stripped"])
def test_function_sizes(tmp_path: Path, flags: list[str]) -> None:
    """A stripped file tells of exported functions alone."""
    text = "__attribute__((noinline)) static int own(int x) { return x / 7; }\n"
    (tmp_path / "f.c").write_text(text + "int f(int x) { return own(x) % 11; }\n")
    command = [*find_compiler(None).command, "-O1", "-shared", "-fPIC", *flags]
    subprocess.run([*command, "f.c", "-o", "f.so"], cwd=tmp_path, check=True)
    sizes = read_function_sizes((tmp_path / "f.so").read_bytes())
    assert sizes["f"] > 10
    assert sizes.get("own", 0) > 10 or flags
    assert "own" not in sizes or not flags


def test_function_sizes_of_no_object() -> None:
    with pytest.raises(ValueError, match="does not describe its functions"):
        read_function_sizes(b"#!/bin/sh")
