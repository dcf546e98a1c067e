"""The port between the runtime and a machine: memory, copies, streams, kernels.

Addresses, streams and events are plain integers; stream 0 is the default stream. ``cuda.py`` is the
port to an NVIDIA GPU. Another object with these methods may be given to ``load(device=...)``.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from ..manifest import Binary, Kernel

NULL_SLOT = 0
"""The cell that always holds 0."""
Issue = Callable[[int], None]
"""Issues work to the stream it is given."""


class Step(NamedTuple):
    """A launch whose arguments are numbers of cells; ``scratch`` is the cell of its scratch memory.

    ``after`` lists the earlier steps it depends on; it may overtake others.
    """

    kernel: Any  # the handle of Device.load
    name: str
    grid: tuple[int, int, int]
    slots: tuple[int, ...]
    scratch: int
    after: tuple[int, ...]


class HostCall(NamedTuple):
    """A step on the host: ``run`` is called with the stream, between launches."""

    run: Issue
    after: tuple[int, ...]


class Device(Protocol):
    """The port that a machine implements. Methods raise DeviceError in plain English."""

    @property
    def name(self) -> str:
        """For messages and arrays: "cuda:0", "cpu"."""

    @property
    def place(self) -> tuple[int, int]:
        """DLPack's (device type, index). Type 1 is host memory: numpy arrays are used in place."""

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        """The best of the package's targets, and the ``arch`` argument of the plan."""

    def enter(self) -> bool:
        """Make the device current for this thread; True when ``leave`` must undo it."""

    def leave(self) -> None:
        """Undo ``enter``."""

    def alloc(self, size: int) -> int:
        """Address of at least ``size`` bytes, aligned to 256."""

    def free(self, address: int) -> None:
        """Free memory of ``alloc`` once the work that uses it has finished."""

    def alloc_shared(self, size: int) -> int:
        """Address of ``size`` bytes that host and kernels share, for assertions."""

    def free_shared(self, address: int) -> None:
        """Free memory of ``alloc_shared`` once the work that uses it has finished."""

    def lock(self, address: int, size: int) -> None:
        """Keep host memory in its place, so that copies from it are the device's own work."""

    def unlock(self, address: int) -> None:
        """Undo ``lock``, before the memory is freed."""

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        """Host to device; ``source`` may be reused on return."""

    def copy_out(self, target: int, source: int, size: int, stream: int) -> None:
        """Device to host; the bytes are there after ``synchronize(stream)``."""

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Device to device."""

    def clear(self, address: int, size: int) -> None:
        """Zero ``size`` bytes; done on return, and no part of a capture in progress."""

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream; for all work of the device when None."""

    def event(self) -> int:
        """A new event for ``record`` and ``wait``."""

    def record(self, event: int, stream: int) -> None:
        """Record the event behind the work issued so far to ``stream``."""

    def wait(self, event: int, stream: int) -> None:
        """Make ``stream`` wait for the event."""

    def drop(self, event: int) -> None:
        """Destroy an event."""

    def owner(self, address: int) -> int:
        """The index of the device that owns the memory at ``address``."""

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> Any:
        """Load a kernel; returns the handle for a Step."""

    def capture(self, stream: int) -> int:
        """The identifier of the capture in progress on ``stream``; 0 for none."""

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        """A function of the stream that issues all steps in a topological order of ``after``.

        Each issue reads ``cells`` again. A cell holds a pointer, or an integer argument in two's
        complement. With ``graphs`` the device may keep repeated steps as a graph.
        """

    def close(self) -> None:
        """Unload all kernels."""


def is_host(device: Device) -> bool:
    """True when the device computes on host memory."""
    return device.place[0] == 1


@contextmanager
def active(device: Device) -> Iterator[None]:
    """The device is current inside the block."""
    entered = device.enter()
    try:
        yield
    finally:
        if entered:
            device.leave()
