"""C text -> one shared object, by the system's C compiler. The same text gives the same bytes."""

import functools
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from aotpack.errors import CompileError, UsageError
from aotpack.knobs import read_knobs
from aotpack.precompile.cache import KernelCache
from aotpack.precompile.shared_object import read_needs
from aotpack.stages import Binary, HostBuild, KernelSource
from aotpack.target import CPU

_FAMILIES = {
    "x86_64": ("x86-64-v3", "x86-64", "x86-64-v2", "x86-64-v4"),
    "aarch64": ("armv8-a", "armv8.2-a", "armv9-a"),
}
"""What may follow -march on each machine; the first is the default."""

_FLAGS = (
    "-std=gnu11 -O3 -fPIC -shared -fvisibility=hidden -fopenmp-simd -fwrapv -fno-strict-aliasing"
    # Results must not depend on how a loop is split, so products and sums are not contracted.
    " -ffp-contract=off"
    # Nothing reads errno or the exception flags; neither changes a result.
    " -fno-math-errno -fno-trapping-math"
    " -fno-ident -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-s"
).split()
_LIBRARIES = frozenset(
    {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    | {"libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"}
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: its command, and its version text."""

    command: tuple[str, ...]
    version: str


def host_build(arch: str | None) -> HostBuild:
    """The machine that a shared object is compiled for; ``arch`` is the user's choice."""
    machine = platform.machine()
    accepted = _FAMILIES.get(machine)
    if accepted is None:
        raise UsageError(f"target cpu: this machine is {machine}; accepted: {', '.join(_FAMILIES)}")
    chosen = arch or accepted[0]
    if chosen not in accepted:
        raise UsageError(
            f"target cpu: --cpu-arch {chosen} cannot be built on this {machine} machine; accepted: "
            f"{', '.join(accepted)}. Code for another machine is built on such a machine."
        )
    return HostBuild(machine, chosen, None)


def check_host(arch: str | None) -> None:
    """Refuse early the architectures that ``compile_host`` cannot build here."""
    host_build(arch)
    find_compiler(read_knobs().compiler)


def host_flags(arch: str) -> tuple[str, ...]:
    """The flags that compile kernels for an architecture."""
    return (*_FLAGS, f"-march={arch}")


@functools.cache
def find_compiler(named: str | None) -> Compiler:
    """The compiler of AOTPACK_CC, else cc, gcc or clang."""
    names = [named] if named else ["cc", "gcc", "clang"]
    for name in names:
        command = shlex.split(name)
        if command and shutil.which(command[0]):
            return Compiler(tuple(command), _version(command))
    looked = named or ", ".join(names)
    raise CompileError(
        f"compiling for cpu: no C compiler was found (looked for {looked}). Install gcc or clang, "
        "name one in AOTPACK_CC, or leave out the target cpu; wheels need none to run."
    )


def compile_host(
    text: str, kernels: tuple[KernelSource, ...], build: HostBuild, cache: KernelCache
) -> tuple[list[Binary], HostBuild, str]:
    """A binary for each kernel, all with the same code; the build with its glibc; the compiler."""
    if not kernels:
        return [], build, "none"
    knobs = read_knobs()
    compiler = find_compiler(knobs.compiler)
    flags = (*host_flags(build.arch), *knobs.compiler_flags)
    asked = (compiler.version, *compiler.command[1:], *flags, text)
    key = sha256("\n".join(asked).encode()).hexdigest()
    kept = cache.get(key)
    code = kept.code if kept is not None else _compile(text, compiler, flags)
    needs = read_needs(code)
    foreign = [name for name in needs.libraries if name not in _LIBRARIES]
    if foreign and not knobs.compiler_flags:
        raise CompileError(
            f"compiling for cpu: the shared object needs {', '.join(foreign)}, which a wheel cannot"
            f" count on; accepted: {', '.join(sorted(_LIBRARIES))}. Use another compiler."
        )
    binaries = [_binary(kernel.name, code) for kernel in kernels]
    if kept is None:
        cache.put(key, _binary("", code))
    return binaries, HostBuild(build.machine, build.arch, needs.glibc), compiler.version


def _compile(text: str, compiler: Compiler, flags: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="aotpack-") as folder:
        source, target = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(text)
        command = [*compiler.command, *flags, "kernels.c", "-o", "kernels.so", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(
                f"compiling for cpu failed (exit code {done.returncode}).\n"
                f"The compiler says:\n{done.stderr.strip()[-4000:]}\n{_repeat(text, command)}"
            )
        return target.read_bytes()


def _repeat(text: str, command: list[str]) -> str:
    """Leave the text in a file; gives the command that compiles it again."""
    folder = read_knobs().dump or Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"failed_{sha256(text.encode()).hexdigest()[:8]}.c"
    file.write_text(text)
    again = [str(file) if word == "kernels.c" else word for word in command]
    return f"To repeat: {shlex.join(again)}"


def _version(command: list[str]) -> str:
    answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    lines = answer.stdout.splitlines()
    if answer.returncode or not lines:
        raise CompileError(
            f"compiling for cpu: {shlex.join(command)} --version failed with exit code "
            f"{answer.returncode}: {answer.stderr.strip()[-500:]}. Name another in AOTPACK_CC."
        )
    return lines[0].strip().removeprefix(f"{Path(command[0]).name} ")


def _binary(kernel: str, code: bytes) -> Binary:
    return Binary(
        kernel=kernel,
        target=str(CPU),
        symbol=kernel,
        code=code,
        suffix="so",
        num_warps=1,
        num_ctas=1,
        shared=0,
        global_scratch=0,
        global_scratch_align=1,
        registers=0,
        spills=0,
    )
