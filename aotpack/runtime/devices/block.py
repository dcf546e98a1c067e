"""Device memory with a lifetime: freed when the last reference to its block goes."""

import weakref
from collections.abc import Callable

from ..errors import AotpackError
from .device import Device, active


class Block:
    """``size`` bytes at ``address``; ``is_shared`` memory is the host's and the kernels'."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, device: Device, size: int, *, is_shared: bool = False) -> None:
        self.size = size
        self.address = device.alloc_shared(size) if is_shared else device.alloc(size)
        free = device.free_shared if is_shared else device.free
        weakref.finalize(self, release, device, free, self.address).atexit = False


def release(device: Device, undo: Callable[[int], None], address: int) -> None:
    """Give memory back at its end: free or unlock it on the device."""
    try:
        with active(device):
            undo(address)
    except AotpackError:
        return  # the driver is shutting down and has given all back
