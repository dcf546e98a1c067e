"""C text to a shared object: repeatable, cached, and refused in words."""

import ctypes
import platform
import re
import subprocess
from pathlib import Path

import pytest

from aotpack.emit.tags import platform_tag
from aotpack.errors import CompileError, UsageError
from aotpack.ir.dtypes import DType
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile import host
from aotpack.precompile.cache import KernelCache
from aotpack.precompile.host import (
    check_host,
    compile_host,
    find_compiler,
    host_build,
    host_flags,
)
from aotpack.precompile.shared_object import read_needs
from aotpack.stages import KernelArg, KernelSource
from aotpack.target import CPU
from tests.render.test_c_templates import CASES, Table

EXPORTED = '__attribute__((visibility("default")))'
TEXT = f"#include <math.h>\n{EXPORTED} double f(double x) {{ return exp(x); }}\n"
KERNELS = (
    KernelSource(
        "f", TEXT, (KernelArg("x", DType.FLOAT64, False, is_written=False),), 1, 1, language="c"
    ),
)


def compiled(text: str = TEXT, folder: Path | None = None) -> bytes:
    binaries, _, _ = compile_host(text, KERNELS, host_build(None), KernelCache(folder))
    return binaries[0].code


def test_the_same_text_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert compiled() == first
    assert compiled(TEXT.replace("exp", "log")) != first


def test_one_shared_object_holds_every_kernel(tmp_path: Path) -> None:
    (tmp_path / "f.so").write_bytes(compiled())
    function = ctypes.CDLL(str(tmp_path / "f.so")).f
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_double,)
    assert function(0.0) == 1.0


def test_a_second_build_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(folder=tmp_path)
    monkeypatch.setattr(host, "_compile", None)
    assert compiled(folder=tmp_path) == first


def test_needs_are_the_system_s_own() -> None:
    needs = read_needs(compiled())
    assert "libc.so.6" in needs.libraries or "libm.so.6" in needs.libraries
    assert needs.glibc is not None and needs.glibc >= (2, 2)


def test_bytes_that_are_no_shared_object_are_refused() -> None:
    with pytest.raises(ValueError, match="not a little-endian ELF64"):
        read_needs(b"MZ" + bytes(100))
    with pytest.raises(ValueError, match="does not describe"):
        read_needs(compiled()[:64] + bytes(64))


def test_a_library_that_no_wheel_can_count_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_LIBRARIES", frozenset())
    monkeypatch.delenv("AOTPACK_CFLAGS")
    with pytest.raises(CompileError, match="needs lib.*, which a wheel cannot count on"):
        compiled()


def test_an_error_in_the_text_comes_with_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTPACK_DUMP", str(tmp_path))
    with pytest.raises(CompileError, match=r"(?s)compiling for cpu failed.*wrong.*To repeat: .*cc"):
        compiled("int f(void) { return wrong; }")
    assert [path.suffix for path in tmp_path.iterdir()] == [".c"]


def test_a_missing_compiler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    check_host(None)
    monkeypatch.setenv("AOTPACK_CC", "no-such-compiler")
    with pytest.raises(CompileError, match="no C compiler was found .looked for no-such-compiler"):
        check_host(None)
    monkeypatch.delenv("AOTPACK_CC")
    monkeypatch.setenv("PATH", "")
    find_compiler.cache_clear()
    with pytest.raises(CompileError, match="looked for cc, gcc, clang"):
        find_compiler(None)


def test_a_compiler_that_does_not_answer_is_refused() -> None:
    with pytest.raises(CompileError, match="false --version failed with exit code 1"):
        find_compiler("false")


def test_code_for_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = host_build(None)
    assert own.machine == platform.machine()
    assert host_build(own.arch) == own
    other = "armv8-a" if own.machine == "x86_64" else "x86-64"
    with pytest.raises(UsageError, match=f"--cpu-arch {other} cannot be built on this"):
        host_build(other)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="this machine is riscv64; accepted: x86_64, aarch64"):
        host_build(None)


def text_for(machine: str) -> str:
    """What a compiler for ``machine`` sees of every template, without the system's headers."""
    table = Table(CASES).eval()
    args = tuple(arg for case in CASES for arg in case.args)
    text = Build(Source(table, args), BuildOptions((CPU,))).rendered.host_file
    own = "\n".join(line for line in text.splitlines() if not line.startswith("#include"))
    macros = {"x86_64": ("-D__x86_64__",), "aarch64": ("-D__aarch64__",)}[machine]
    hidden = ["-undef", "-nostdinc", *macros]
    command = [*find_compiler(None).command, "-E", "-P", *hidden, "-x", "c", "-"]
    done = subprocess.run(command, input=own, capture_output=True, text=True, check=True)
    return done.stdout


INTEL = re.compile(r"__builtin_ia32_\w+|__builtin_cpu_\w+|_mm\d*_\w+|avx\w*|prefer-vector-width")


def test_code_for_aarch64_has_nothing_of_intel_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_for("aarch64")
    assert INTEL.findall(text) == [] and '__asm__ volatile("yield")' in text
    assert "aot_matmul_base1" in text
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert host_flags(host_build(None).arch)[-1] == "-march=armv8-a"
    assert platform_tag(host_build("armv8.2-a")) == "linux_aarch64"


def test_code_for_x86_has_both() -> None:
    assert {"__builtin_ia32_pause", "__builtin_cpu_supports", "avx512f"} <= set(
        INTEL.findall(text_for("x86_64"))
    )
