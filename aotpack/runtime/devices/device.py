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
    """A launch with its arguments as numbers of cells; ``scratch`` is the cell of its scratch.

    ``after`` holds the numbers of the earlier steps it must follow; others it may overtake.
    """

    kernel: Any  # what Device.load returned
    name: str
    grid: tuple[int, int, int]
    slots: tuple[int, ...]
    scratch: int
    after: tuple[int, ...]


class HostCall(NamedTuple):
    """A step that is no kernel: ``run`` is called with the stream, between launches."""

    run: Issue
    after: tuple[int, ...]


class Device(Protocol):
    """What the runtime needs of a machine. Methods raise DeviceError in plain English."""

    @property
    def name(self) -> str:
        """For messages and arrays: "cuda:0", "cpu"."""

    @property
    def place(self) -> tuple[int, int]:
        """DLPack's (device type, index). Type 1 is host memory: numpy arrays are used in place."""

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        """The best of the package's targets, and the ``arch`` to give to the plan."""

    def enter(self) -> bool:
        """Make the device current for this thread; True when ``leave`` must undo it."""

    def leave(self) -> None:
        """Undo ``enter``."""

    def alloc(self, size: int) -> int:
        """Address of at least ``size`` bytes, aligned to 256."""

    def free(self, address: int) -> None:
        """Give back what ``alloc`` returned, once work that uses it is done."""

    def alloc_shared(self, size: int) -> int:
        """Address of so many bytes for host and kernels alike; asked for by assertions alone."""

    def free_shared(self, address: int) -> None:
        """Give back what ``alloc_shared`` returned, once work that uses it is done."""

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        """Host to device; ``source`` may be reused on return."""

    def copy_out(self, target: int, source: int, size: int, stream: int) -> None:
        """Device to host; the bytes are there after ``synchronize(stream)``."""

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Device to device."""

    def clear(self, address: int, size: int, stream: int) -> None:
        """Zero ``size`` bytes."""

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream; for all work of the device when None."""

    def event(self) -> int:
        """A new marker for ``record`` and ``wait``."""

    def record(self, event: int, stream: int) -> None:
        """Mark the present end of ``stream``."""

    def wait(self, event: int, stream: int) -> None:
        """Let ``stream`` go on only after what the event marks."""

    def drop(self, event: int) -> None:
        """Give back a marker."""

    def owner(self, address: int) -> int:
        """The index of the device whose memory ``address`` is."""

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> Any:
        """A handle on a kernel, to be put in a Step."""

    def capture(self, stream: int) -> int:
        """A number for the recording that takes what is issued to ``stream``; 0 for none."""

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        """A function of the stream that issues all steps, in an order their ``after`` admits.

        ``cells`` is read anew in each issue. A cell holds a pointer, or an integer argument in
        two's complement. With ``graphs`` steps that are issued again and again may be kept by the
        device as a whole.
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
