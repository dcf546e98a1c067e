"""Device memory with a lifetime: freed when the last reference to its block goes."""

import weakref
from collections.abc import Callable, Sequence

from ..errors import AotpackError
from .device import Device, active


class Block:
    """``size`` bytes at ``address``; ``is_shared`` memory is the host's and the kernels'."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, device: Device, size: int, *, is_shared: bool = False) -> None:
        self.size = size
        alloc = device.alloc_shared if is_shared else device.alloc
        free = device.free_shared if is_shared else device.free
        taken: list[int] = []  # is given back whatever is raised from here on
        weakref.finalize(self, release, device, free, taken).atexit = False
        taken.append(alloc(size))
        self.address = taken[0]


def release(device: Device, undo: Callable[[int], None], addresses: Sequence[int]) -> None:
    """Give memory back at its end: free or unlock it on the device."""
    try:
        with active(device):
            for address in addresses:
                undo(address)
    except AotpackError:
        return  # the driver is shutting down and has given all back
