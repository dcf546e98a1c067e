"""Device memory with a lifetime: freed when the last reference to its block goes."""

import weakref

from ..errors import AotpackError
from .device import Device, active


class Block:
    """``size`` bytes at ``address``; ``is_shared`` memory is the host's and the kernels'."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, device: Device, size: int, *, is_shared: bool = False) -> None:
        self.size = size
        self.address = device.alloc_shared(size) if is_shared else device.alloc(size)
        weakref.finalize(self, _free, device, self.address, is_shared).atexit = False


def _free(device: Device, address: int, is_shared: bool) -> None:
    try:
        with active(device):
            (device.free_shared if is_shared else device.free)(address)
    except AotpackError:
        return  # the driver is shutting down and has freed the memory
