"""C text -> one shared object, by the system's C compiler. The same text gives the same bytes."""

import functools
import platform
import shlex
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from aotpack.errors import CompileError, UsageError
from aotpack.knobs import read_knobs
from aotpack.precompile.cache import KernelCache
from aotpack.precompile.dump import KEEP, leave_in_dump
from aotpack.precompile.elf import read_exports, read_machine
from aotpack.precompile.shared_object import Needs, read_needs
from aotpack.precompile.tool import run_tool
from aotpack.runtime.devices.cpu import POOL
from aotpack.stages import Binary, HostBuild, KernelSource
from aotpack.target import CPU
from aotpack.temporary import temporary_folder

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
    " -fno-ident -Wl,--build-id=none -Wl,-z,noexecstack"
    # Not stripped: profilers and ``aotpack inspect`` know functions by the table of symbols.
).split()
_LIBRARIES = frozenset(
    {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    | {"libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"}
)
_DOING = "compiling for cpu"


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
        is_known = any(chosen in family for family in _FAMILIES.values())
        what = f"cannot be built on this {machine} machine" if is_known else "is not known"
        other = " Code for another machine is built on such a machine." if is_known else ""
        raise UsageError(
            f"target cpu: --cpu-arch {chosen} {what}; accepted: {', '.join(accepted)}.{other}"
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
        command = _words(name)
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
    names = frozenset(kernel.name for kernel in kernels)

    def check(binary: Binary) -> None:
        _check(binary.code, names, build)

    kept = cache.get(key, check)
    code = kept.code if kept is not None else _compile(text, compiler, flags)
    try:
        needs = _check(code, names, build)
    except ValueError as error:
        raise CompileError(
            f"{_DOING}: {shlex.join(compiler.command)} reported success, but what it wrote cannot "
            f"be shipped: {error}. Name another compiler in AOTPACK_CC."
        ) from error
    foreign = [name for name in needs.libraries if name not in _LIBRARIES]
    if foreign and not knobs.compiler_flags:
        raise CompileError(
            f"{_DOING}: the shared object needs {', '.join(foreign)}, which a wheel cannot"
            f" count on; accepted: {', '.join(sorted(_LIBRARIES))}. Use another compiler."
        )
    binaries = [_binary(kernel.name, code) for kernel in kernels]
    if kept is None:
        cache.put(key, _binary("", code))
    return binaries, HostBuild(build.machine, build.arch, needs.glibc), compiler.version


def _check(code: bytes, kernels: frozenset[str], build: HostBuild) -> Needs:
    """The needs of a shared object of these kernels; ValueError if it is something else."""
    if not code:
        raise ValueError("the file is empty")
    machine = read_machine(code)
    if machine != build.machine:
        raise ValueError(f"its machine is {machine}, not {build.machine}")
    lacking = sorted(kernels.union(POOL) - read_exports(code))
    if lacking:
        more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
        raise ValueError(f"it does not offer the function {lacking[0]}{more}")
    return read_needs(code)


def _compile(text: str, compiler: Compiler, flags: tuple[str, ...]) -> bytes:
    with temporary_folder(_DOING) as folder:
        source, target = folder / "kernels.c", folder / "kernels.so"
        source.write_text(text, encoding="utf-8")
        command = [*compiler.command, *flags, "kernels.c", "-o", "kernels.so", "-lm"]
        done = run_tool(_DOING, command, folder)
        if done.status:
            raise CompileError(
                f"{_DOING} failed ({done.ending}).\nThe compiler says:\n"
                f"{done.errors.strip()[-4000:]}\n{_repeat(text, command)}"
            )
        return target.read_bytes() if target.is_file() else b""


def _repeat(text: str, command: list[str]) -> str:
    """The command that compiles the text again, which is left in the folder of dumps."""
    file = leave_in_dump(f"failed_{sha256(text.encode()).hexdigest()[:8]}.c", text)
    if file is None:
        return KEEP
    again = [str(file) if word == "kernels.c" else word for word in command]
    return f"To repeat: {shlex.join(again)}"


def _words(named: str) -> list[str]:
    try:
        return shlex.split(named)
    except ValueError as error:
        raise UsageError(
            f"AOTPACK_CC={named!r} is not accepted: {error}; it takes a command as in a shell"
        ) from None


def _version(command: list[str]) -> str:
    done = run_tool(_DOING, [*command, "--version"])
    lines = done.output.splitlines()
    if done.status or not lines:
        raise CompileError(
            f"{_DOING}: {shlex.join(command)} --version failed with {done.ending}: "
            f"{done.errors.strip()[-500:]}. Name another in AOTPACK_CC."
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
