"""A device port on host memory whose kernels are Python functions; it records what is asked."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotpack.runtime.devices.device import Step
from aotpack.runtime.errors import DeviceError
from aotpack.runtime.manifest import Binary, Kernel


def floats(address: int, count: int) -> np.ndarray[Any, Any]:
    """float32 elements at an address."""
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


class FakeDevice:
    """``place`` (2, 0) plays a GPU: numpy arrays are copied; (1, 0) works on them in place."""

    def __init__(
        self,
        place: tuple[int, int] = (2, 0),
        capacity: int = 1 << 30,
        targets: tuple[str, ...] = ("fake",),
    ) -> None:
        self.name, self.place = "fake:0", place
        self.capacity, self.targets = capacity, targets
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.locked: dict[int, int] = {}  # address -> bytes
        self.allocations = 0
        self.launches: list[str] = []
        self.arguments: list[list[int]] = []  # of each launch
        self.waits: list[tuple[int, int]] = []
        self.streams: list[int] = []
        self.is_closed = False
        self.before_issue: Callable[[], None] = lambda: None

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        for target in self.targets:
            if target in targets:
                return target, 90
        raise DeviceError(f"loading on {self.name}: the package has binaries for {targets}")

    def enter(self) -> bool:
        return False

    def leave(self) -> None:
        raise AssertionError("nothing was entered")

    def alloc(self, size: int) -> int:
        if size + sum(block.nbytes for block in self.blocks.values()) > self.capacity:
            raise DeviceError(f"allocating {size:,} bytes on {self.name}: no memory left")
        block = np.zeros(size + 256, np.uint8)
        address = (block.ctypes.data + 255) // 256 * 256
        self.blocks[address] = block
        self.allocations += 1
        return address

    def free(self, address: int) -> None:
        del self.blocks[address]

    alloc_shared = alloc
    free_shared = free

    def lock(self, address: int, size: int) -> None:
        self.locked[address] = size

    def unlock(self, address: int) -> None:
        del self.locked[address]

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(target, source, size)

    copy_out = copy = copy_in

    def clear(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)

    def synchronize(self, stream: int | None) -> None:
        return

    def event(self) -> int:
        return 7

    def record(self, event: int, stream: int) -> None:
        return

    def wait(self, event: int, stream: int) -> None:
        self.waits.append((event, stream))

    def drop(self, event: int) -> None:
        return

    def owner(self, address: int) -> int:
        return 0 if self.place[1] == 0 else 1

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> Any:
        namespace: dict[str, Any] = {"floats": floats}
        exec(code, namespace)
        return namespace[binary.symbol]

    def capture(self, stream: int) -> int:
        return 0

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        def issue(stream: int) -> None:
            self.before_issue()
            self.streams.append(stream)
            for step in steps:
                self.launches.append(step.name)
                self.arguments.append([cells[slot] for slot in step.slots])
                step.kernel(*self.arguments[-1])

        return issue

    def close(self) -> None:
        self.is_closed = True
