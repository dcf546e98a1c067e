"""C text to a shared object: repeatable, cached, and refused in words."""

import ctypes
import os
import platform
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from aotpack.emit.tags import platform_tag
from aotpack.errors import AotpackError, CompileError, UsageError
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
from tests.precompile.test_pool import is_running
from tests.render.test_c_templates import CASES, Table

EXPORTED = '__attribute__((visibility("default")))'
POOL = "".join(
    f"{EXPORTED} void aot_{name}(void) {{}}\n"
    for name in "open tune work run stop left close forked".split()
)
TEXT = f"#include <math.h>\n{EXPORTED} double f(double x) {{ return exp(x); }}\n{POOL}"
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
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".c" and left.stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_no_file_that_was_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(CompileError, match=r"Build again with AOTPACK_DUMP=FOLDER"):
        compiled("int f(void) { return wrong; }")
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_folder_of_dumps_is_replaced_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, victim = "int f(void) { return wrong; }", tmp_path / "victim"
    victim.write_text("mine")
    dump = tmp_path / "dump"
    dump.mkdir()
    link = dump / f"failed_{sha256(wrong.encode()).hexdigest()[:8]}.c"
    link.symlink_to(victim)
    monkeypatch.setenv("AOTPACK_DUMP", str(dump))
    with pytest.raises(CompileError, match="To repeat"):
        compiled(wrong)
    assert victim.read_text() == "mine" and not link.is_symlink() and link.read_text() == wrong
    monkeypatch.setenv("AOTPACK_DUMP", str(victim))
    with pytest.raises(UsageError, match="AOTPACK_DUMP=.*victim: writing failed_.*name a folder"):
        compiled(wrong)


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


def test_a_compiler_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="false --version failed with exit code 1"):
        find_compiler("false")
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(CompileError, match="text --version could not be started: .*Exec format"):
        find_compiler(str(tmp_path / "text"))


@pytest.mark.parametrize("name", ["AOTPACK_CC", "AOTPACK_CFLAGS"])
def test_an_unbalanced_quote_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "cc '-O1")
    with pytest.raises(UsageError, match=f"{name}=.* is not accepted: No closing quotation"):
        check_host(None)


FAULTS = {
    "nothing": ("exit 0", "reported success, but .* cannot be shipped: the file is empty"),
    "an empty file": (": > kernels.so", "cannot be shipped: the file is empty"),
    "junk": ("echo junk > kernels.so", "cannot be shipped: not a little-endian ELF64 file"),
    "half": ("cc -shared kernels.c -o k.so && head -c 99 k.so > kernels.so", "cannot be shipped"),
    "no kernels": (
        "echo 'int g(void) { return 1; }' > g.c && cc -shared g.c -o kernels.so",
        "cannot be shipped: it does not offer the function aot_close and 8 more",
    ),
    "a program": (
        "echo 'int main(void) { return 1; }' > g.c && cc g.c -o kernels.so",
        "cannot be shipped: it does not offer",
    ),
    "an object": ("cc -c kernels.c -o kernels.so", "cannot be shipped: .*'.dynstr'"),
    "words that are not UTF-8": (r"printf '\377bad' >&2; exit 3", r"(?s)exit code 3.*\\xffbad"),
    "its death": ("kill -9 $$", "failed .signal SIGKILL"),
    "sleep": ("sleep 60", "did not end within 1 seconds and was stopped; AOTPACK_TIMEOUT"),
}


@pytest.mark.parametrize(("does", "message"), FAULTS.values(), ids=FAULTS)
def test_a_compiler_that_fails_in_its_own_way_is_refused_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, message: str
) -> None:
    """It answers as one does, and then writes something else."""
    command = tmp_path / "cc"
    command.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec cc --version\n{does}\n')
    command.chmod(0o755)
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    monkeypatch.setenv("AOTPACK_CC", str(command))
    monkeypatch.setenv("AOTPACK_TIMEOUT", "1")
    with pytest.raises(CompileError, match=message):
        compiled(folder=tmp_path / "cache")
    assert not (tmp_path / "cache").exists() and list(room.iterdir()) == []


def test_a_planted_object_without_the_kernels_is_compiled_again(tmp_path: Path) -> None:
    other = TEXT.replace("double f(", "double g(")
    (good, planted) = (compiled(folder=tmp_path / "a"), compiled_g(other))
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    cache = KernelCache(tmp_path / "a")
    cache.put(entry.name, replace(host._binary("", b""), code=planted))
    assert entry.read_bytes().endswith(planted)
    assert compiled(folder=tmp_path / "a") == good
    assert entry.read_bytes().endswith(good)


def compiled_g(text: str) -> bytes:
    kernels = (replace(KERNELS[0], name="g"),)
    return compile_host(text, kernels, host_build(None), KernelCache(None))[0][0].code


INTERRUPTED = """
import signal
from aotpack.precompile.tool import run_tool

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGHUP, interrupt)
run_tool("compiling", ["sh", "-c", "sleep 60 & echo $! > child; sleep 0.5; kill -HUP $PPID; wait"])
"""


def test_an_interrupt_ends_the_compiler_with_its_children(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=os.environ | {"PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert b"KeyboardInterrupt" in done.stderr
    child = (tmp_path / "child").read_text().strip()
    deadline = time.monotonic() + 20
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def test_a_folder_for_temporary_files_that_is_full_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(AotpackError) as caught:
            compiled()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value) == (
        f"compiling for cpu: writing temporary files into {tmp_path} failed: File too large; make"
        " room there, or name another folder in TMPDIR"
    )
    assert list(tmp_path.iterdir()) == []


def test_code_for_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = host_build(None)
    assert own.machine == platform.machine()
    assert host_build(own.arch) == own
    other = "armv8-a" if own.machine == "x86_64" else "x86-64"
    with pytest.raises(
        UsageError, match=f"--cpu-arch {other} cannot be .* another machine is built"
    ):
        host_build(other)
    with pytest.raises(
        UsageError, match=r"--cpu-arch haswell is not known; accepted: [\w.\-, ]+\.$"
    ):
        host_build("haswell")
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
