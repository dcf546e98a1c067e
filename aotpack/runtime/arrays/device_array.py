"""The result array for callers whose framework cannot allocate on the device; frees its memory."""

import math
from typing import Any

import numpy as np

from ..devices.block import Block
from ..devices.device import Device, active, is_host
from ..dtypes import Array, DType, present
from ..strides import strides
from .dlpack import export_capsule
from .orders import empty, laid_out


class DeviceArray:
    """Memory on the model's device, exported by DLPack or ``__cuda_array_interface__``.

    Its contents are valid once its stream has finished; both protocols synchronise with the stream.
    """

    __slots__ = (
        *("__weakref__", "_device", "_order", "_owner", "_stream"),
        *("address", "dtype", "shape"),
    )

    def __init__(
        self,
        device: Device,
        shape: tuple[int, ...],
        dtype: DType,
        stream: int = 0,
        order: tuple[int, ...] = (),
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._device, self._stream, self._order = device, stream, order
        self._owner: Any = None
        self.address = 0
        if self.nbytes:
            self._owner = Block(device, self.nbytes)
            self.address = self._owner.address

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self._device.name})"

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def from_numpy(
        cls, device: Device, stored: Array, dtype: DType, order: tuple[int, ...] = ()
    ) -> "DeviceArray":
        """Copy stored elements to the device (as bits, for types numpy lacks)."""
        with active(device):
            made = cls(device, stored.shape, dtype, order=order)
        made.fill(stored)
        return made

    @classmethod
    def over(
        cls, device: Device, address: int, shape: tuple[int, ...], dtype: DType, owner: Any
    ) -> "DeviceArray":
        """A view of memory that ``owner`` owns; keeps ``owner`` alive."""
        made = cls.__new__(cls)
        made.shape, made.dtype, made.address = shape, dtype, address
        made._device, made._stream, made._order, made._owner = device, 0, (), owner
        return made

    def of_pairs(self, dtype: DType) -> "DeviceArray":
        """The last dimension, of two parts, as one complex number in the same memory."""
        made = DeviceArray.over(self._device, self.address, self.shape[:-1], dtype, self._owner)
        made._stream, made._order = self._stream, self._order[:-1]
        return made

    def fill(self, stored: Array) -> None:
        """Copy stored elements of the same shape in (as bits, for types numpy lacks)."""
        with active(self._device):
            source = laid_out(stored, stored.dtype, self._order)
            self._device.copy_in(self.address, source.ctypes.data, self.nbytes, self._stream)
            self._device.synchronize(self._stream)

    def numpy(self) -> Array:
        """A host copy; types numpy lacks become ml_dtypes' if it is loaded, else float32."""
        return present(self.stored(), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """A host copy, for ``numpy.asarray``."""
        if copy is False:
            raise ValueError("an array of a device comes to the host as a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def stored(self) -> Array:
        """A host copy of the elements (bits for types numpy lacks)."""
        target: Array = empty(self.shape, self.dtype.storage, self._order)
        with active(self._device):
            self._device.copy_out(target.ctypes.data, self.address, self.nbytes, self._stream)
            self._device.synchronize(self._stream)
        return target

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if is_host(self._device):
            raise AttributeError("this array is in host memory")
        known, bits = np.dtype(self.dtype.storage).str, {1: "|V1", 2: "<V2"}
        kind = known if self.dtype.is_known_to_numpy else bits[self.dtype.itemsize]
        return {
            "shape": self.shape,
            "typestr": kind,
            "data": (self.address, False),
            "strides": self._strides(self.dtype.itemsize),
            "stream": self._stream or 1,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.place

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """Export a capsule ordered after our stream; -1 requests no ordering."""
        if options.get("copy"):
            raise BufferError("this array is exported without a copy; copy the result")
        consumer = 0 if stream is None or stream == 1 else stream
        if stream != -1 and consumer != self._stream and self.nbytes:
            with active(self._device):
                order(self._device, self._stream, consumer)
        place, steps = self._device.place, self._strides()
        return export_capsule(self, self.address, self.shape, self.dtype, place, steps)

    def _strides(self, unit: int = 1) -> tuple[int, ...] | None:
        """Strides in elements, or in units of which an element has several; None: row-major."""
        found = strides(self.shape, self._order) if self._order else None
        return None if found is None else tuple(step * unit for step in found)


def order(device: Device, before: int, after: int) -> None:
    """Make stream ``after`` wait for the work issued so far to stream ``before``."""
    event = device.event()
    try:
        device.record(event, before)
        device.wait(event, after)
    finally:
        device.drop(event)
