"""Run a program with every C kernel under the address and undefined-behaviour sanitizers.

    python -m tools.sanitize [MODULE ARGUMENTS...]

MODULE is a Python module that compiles kernels for target cpu and calls them; without it, all tests
of kernels in C run. The first finding ends the program with the sanitizer's report. Weights,
intermediates and staged arguments get heap blocks of exactly their bytes, like inputs and outputs,
so that an access beyond the end is found; fresh blocks are filled, so that unwritten elements are
not zero.
"""

import ctypes
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aotpack.precompile import host
from aotpack.runtime import prepare
from aotpack.runtime.devices.cpu import CpuDevice
from aotpack.runtime.memory import weights
from aotpack.runtime.plan import Buffer

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/render/c",
    "tests/e2e/test_grouped_mm.py",
    "tests/e2e/test_oracles.py",
    "tests/e2e/test_regressions.py",
    "tests/e2e/test_fuzz.py",
)
FLAGS = (
    "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
    # Integers of the model wrap by casts alone, so any other overflow is a mistake.
    " -fno-wrapv -O1 -g"
).split()
_ALIGNMENT = 64
_PROGRAM = "import sys; from tools import sanitize; sanitize.main(sys.argv[1:])"


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a module with the sanitizers' runtime loaded first: exit status, standard error."""
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


def environment() -> dict[str, str]:
    """The environment of this process, with the sanitizers."""
    command = [*host.find_compiler(None).command, "-print-file-name=libasan.so"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:max_malloc_fill_size=1000000000:malloc_fill_byte=190",
        "AOTPACK_CACHE": "off",
    }


def main(arguments: Sequence[str]) -> None:
    """Run the module, inside the process of the sanitizers."""
    del os.environ["LD_PRELOAD"]  # the C compiler needs no sanitizer
    install()
    module, *rest = arguments or ("pytest", "-x", "-v", *TESTS)
    if module == "pytest":  # it would keep the report of a process that ends for itself
        rest = ["--capture=sys", "-p", "no:cacheprovider", *rest]
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def install() -> None:
    """Compile with the sanitizers, and give separate memory to all buffers of kernels."""
    kept = [flag for flag in host._FLAGS if flag != "-Wl,-s"]
    host._FLAGS = [*kept, *FLAGS]
    host._LIBRARIES = frozenset({*host._LIBRARIES, "libasan.so.8", "libubsan.so.1"})
    prepare.pack = _apart
    CpuDevice.alloc = _alloc
    CpuDevice.free = _free
    weights.Weights._place = _place


def _heap_block(size: int) -> int:
    """The address of a block of the sanitizer's heap."""
    address = ctypes.c_void_p()
    if ctypes.CDLL(None).posix_memalign(ctypes.byref(address), _ALIGNMENT, ctypes.c_size_t(size)):
        raise MemoryError(size)
    assert address.value is not None
    return address.value


def _alloc(device: CpuDevice, size: int) -> int:
    return _heap_block(size)


def _free(device: CpuDevice, address: int) -> None:
    ctypes.CDLL(None).free(ctypes.c_void_p(address))


def _apart(buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], int]:
    """A separate block for each intermediate, for good: offsets from an arena without memory."""
    return tuple(_heap_block(buffer.size) for buffer in buffers), 0


def _place(own: Any, group: Sequence[Any], sources: Mapping[str, Any]) -> None:
    """A block for each contiguous group of weights."""
    if not any(weight.name in sources for weight in group):
        return
    sizes = [weights._bytes(weight.dtype, weight.shape) for weight in group]
    address = _heap_block(sum(sizes))
    for weight, size in zip(group, sizes, strict=True):
        source = sources.get(weight.name) or own._mapped.get(weight.name)
        if source is not None:
            ctypes.memmove(address, source.address, size)
        own._mapped[weight.name] = weights._Source(address, own._device.place, None)
        address += size


if __name__ == "__main__":
    status, words = run(sys.argv[1:])
    print(words, end="", file=sys.stderr)
    raise SystemExit(status)
