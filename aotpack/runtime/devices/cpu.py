"""The port to CPUs: kernels in one shared object, run by a pool of threads.

The threads are Python's: they need no C thread library, and a fork can be detected. Every call is
synchronous: streams and events do nothing.
"""

import ctypes
import mmap
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import AotpackError, DeviceError, PackageError
from ..manifest import Binary, Kernel, Manifest
from .device import Step
from .fork import register_after_fork
from .shared_object import SharedObject, load_shared_object

CPU_TARGET = "cpu"
PLAN_ARCH = 0
MOST_THREADS = 256
_PAGE = 2 << 20
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_TYPICAL_CACHE = 32 << 20
POOL = tuple(f"aot_{name}" for name in "open tune work run stop left close forked".split())
"""The functions of a shared object beside its kernels."""
_SHORT_WAIT = 0.0005  # seconds
_LONG_SPIN, _SHORT_SPIN = 200_000, 2_000  # pauses of some 25 ns
_FLAGS = {
    "x86-64": (),
    "x86-64-v2": ("cx16", "popcnt", "ssse3", "sse4_1", "sse4_2"),
    "x86-64-v3": ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"),
    "x86-64-v4": ("avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What /proc/cpuinfo must list for code of an architecture; nothing is asked of others."""


class _Step(ctypes.Structure):
    _fields_ = (("kernel", ctypes.c_void_p), ("slots", ctypes.c_void_p))


class CpuDevice:
    """The CPUs this process may use. ``threads`` bounds those that work on one call."""

    name = "cpu"
    place = (1, 0)

    def __init__(self, manifest: Manifest, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise DeviceError(f"loading on cpu: threads={threads}; accepted: 1 or more")
        self._manifest = manifest
        self._threads = min(threads or default_threads(), MOST_THREADS)
        self._objects: dict[str, SharedObject] = {}
        self._library: ctypes.CDLL | None = None
        self._team: _Team | None = None
        self._memory: dict[int, mmap.mmap] = {}

    def __repr__(self) -> str:
        return f"<CpuDevice {self.name}>"

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        """The package's CPU code, if it runs on this processor."""
        if CPU_TARGET not in targets:
            raise DeviceError(
                f"loading on cpu: the package has binaries for {', '.join(targets)}. Build it with "
                "--target cpu, or load it on a GPU."
            )
        _check_machine(self._manifest)
        return CPU_TARGET, PLAN_ARCH

    def enter(self) -> bool:
        return False

    def leave(self) -> None:
        return

    def alloc(self, size: int) -> int:
        """Allocate private pages, which the system commits at the first write."""
        try:
            block = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError) as error:
            number = getattr(error, "errno", None)
            reason = error if number is None else os.strerror(number)
            raise DeviceError(
                f"allocating {size:,} bytes on cpu: {reason}; a smaller call, or a machine with "
                "more memory, is needed"
            ) from None
        if size >= _PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # the kernel may have no huge pages
                block.madvise(mmap.MADV_HUGEPAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self._memory[address] = block
        return address

    def free(self, address: int) -> None:
        del self._memory[address]

    alloc_shared = alloc
    free_shared = free

    def lock(self, address: int, size: int) -> None:
        """Copies are the host's own work."""

    def unlock(self, address: int) -> None:
        """Nothing was locked."""

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(target, source, size)

    copy_out = copy_in
    copy = copy_in

    def clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def synchronize(self, stream: int | None) -> None:
        return

    def event(self) -> int:
        return 0

    def record(self, event: int, stream: int) -> None:
        return

    def wait(self, event: int, stream: int) -> None:
        return

    def drop(self, event: int) -> None:
        return

    def owner(self, address: int) -> int:
        return 0

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> int:
        """The address of the kernel's entry point; ``code`` was checked against its file."""
        shared = self._objects.get(binary.file)
        if shared is None:
            file = str(self._manifest.folder / binary.file)
            shared = self._objects[binary.file] = load_shared_object(code, file)
        if self._library is None:
            self._library = _pool_of(shared, binary.file)
            self._team = _Team(self._library, self._threads - 1)
        address = None if binary.symbol in POOL else shared.address(binary.symbol)
        if address is None:
            raise PackageError(
                f"loading {binary.file}: it lacks the kernel {binary.symbol}. The package is "
                "damaged: reinstall it."
            )
        return address

    def capture(self, stream: int) -> int:
        return 0

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        """Runs all steps in one foreign call, without the GIL."""
        if not steps or self._library is None or self._team is None:
            return _nothing
        run, team, count = self._library.aot_run, self._team, len(steps)
        slots = [(ctypes.c_int32 * len(step.slots))(*step.slots) for step in steps]
        table = (_Step * count)(
            *(
                _Step(step.kernel, ctypes.addressof(own))
                for step, own in zip(steps, slots, strict=True)
            )
        )

        def issue(stream: int, kept: Any = slots) -> None:
            failed = run(team.pool, table, count, cells)
            if failed:
                raise DeviceError(
                    f"running the kernel {steps[failed - 1].name} on cpu: no memory is left for "
                    "its scratch space; use smaller inputs or free some."
                )

        return issue

    def close(self) -> None:
        """Stop the worker threads."""
        if self._team is not None:
            self._team.close()


class _Team:
    """The pool of a shared object with its worker threads."""

    def __init__(self, library: ctypes.CDLL, workers: int) -> None:
        self._library = library
        self.pool = ctypes.c_void_p(library.aot_open(workers))
        if not self.pool:
            raise DeviceError("loading on cpu: no memory is left for the team of threads")
        library.aot_tune(self.pool, _spins(workers), cache_bytes())
        self._threads: list[threading.Thread] = []
        try:
            for number in range(workers):
                self._start(number)
        except RuntimeError as error:
            self._threads.pop()
            self.close()
            raise DeviceError(
                f"loading on cpu: thread {number + 1} of {workers} cannot be started ({error}). "
                "Allow this process more threads, or set AOTPACK_THREADS."
            ) from None
        except BaseException:  # which of them run is unknown: the pool stays
            library.aot_stop(self.pool)
            raise
        register_after_fork(self)

    def _start(self, number: int) -> None:
        thread = threading.Thread(
            target=self._library.aot_work,
            args=(self.pool, number),
            name=f"aotpack-{number}",
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Stop the threads; a second close does nothing.

        A join that an exception ends lets later joins return at once, so that the pool counts the
        threads that have left it: one of them would go on in freed memory.
        """
        if not self.pool:
            return
        self._library.aot_stop(self.pool)
        for thread in self._threads:
            thread.join()
        while self._library.aot_left(self.pool) < len(self._threads):
            time.sleep(_SHORT_WAIT)
        pool, self.pool = self.pool, ctypes.c_void_p()  # a close that dies frees nothing twice
        self._library.aot_close(pool)

    def after_fork(self) -> None:
        """A child process has no worker threads: its calls use the calling thread alone."""
        self._threads = []
        if self.pool:
            self._library.aot_forked(self.pool)


def default_threads() -> int:
    """AOTPACK_THREADS or OMP_NUM_THREADS, else the number of CPUs this process may use."""
    for name in ("AOTPACK_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
        if text and name.startswith("AOTPACK"):
            raise AotpackError(
                f"loading on cpu: {name}={text!r}; accepted: a number of threads, from 1 on"
            )
    return min(len(os.sched_getaffinity(0)), _quota())


def _quota() -> int:
    """The number of CPUs that the container's CPU quota corresponds to."""
    try:
        most, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, -(-int(most) // int(period)))
    except (OSError, ValueError):
        return MOST_THREADS


def _spins(workers: int) -> int:
    """The number of polls before an idle thread sleeps; waking it can take a millisecond.

    Some milliseconds of polling, or less if a spinning thread would block another from its CPU.
    """
    return _LONG_SPIN if workers < len(os.sched_getaffinity(0)) else _SHORT_SPIN


def cache_bytes() -> int:
    """The size of the largest cache; a typical one where the system does not report it."""
    sizes = [_TYPICAL_CACHE]
    for file in _CACHES.glob("index*/size"):
        try:
            sizes.append(int(file.read_text().strip().removesuffix("K")) << 10)
        except (OSError, ValueError):
            continue
    return max(sizes[1:] or sizes)


def _nothing(stream: int) -> None:
    """A plan without steps."""


def _pool_of(shared: SharedObject, file: str) -> ctypes.CDLL:
    """The library with the types of its functions for the team of threads."""
    library = shared.library
    if lacking := [name for name in POOL if shared.address(name) is None]:
        raise PackageError(
            f"loading {file}: it lacks the function {lacking[0]}. The package is damaged: "
            "reinstall it."
        )
    library.aot_open.restype = ctypes.c_void_p
    library.aot_open.argtypes = (ctypes.c_uint32,)
    library.aot_tune.restype = None
    library.aot_tune.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64)
    library.aot_work.restype = None
    library.aot_work.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    library.aot_left.restype = ctypes.c_uint32
    library.aot_left.argtypes = (ctypes.c_void_p,)
    for function in (library.aot_stop, library.aot_close, library.aot_forked):
        function.restype = None
        function.argtypes = (ctypes.c_void_p,)
    library.aot_run.restype = ctypes.c_int64
    library.aot_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return library


def _check_machine(manifest: Manifest) -> None:
    """Refuse code for another machine or a newer CPU, before any of it runs."""
    host = manifest.host
    if host is None:
        raise DeviceError("loading on cpu: manifest.json does not say for which machine it is")
    doing = f"loading {manifest.signature.name} on cpu"
    if platform.machine() != host.machine:
        raise DeviceError(
            f"{doing}: the package is for {host.machine} machines, this one is "
            f"{platform.machine()}. Build it on such a machine."
        )
    lacking = [flag for flag in _FLAGS.get(host.arch, ()) if flag not in (_cpu_flags() or (flag,))]
    if lacking:
        raise DeviceError(
            f"{doing}: its code is for {host.arch} processors, and this one lacks "
            f"{', '.join(lacking)}. Build it with --cpu-arch {next(iter(_FLAGS))}."
        )


def _cpu_flags() -> frozenset[str]:
    """The CPU's feature flags; empty where the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(found.partition(":")[2].split())
