"""The caller's arrays: one class for each framework reads addresses and makes outputs.

torch and cupy are found in ``sys.modules`` and never imported: a caller who has their arrays has
imported them. A call with the same facts as an earlier one needs no second check.

Rows S:A12.
"""

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from .device import Device, is_host
from .device_array import DeviceArray, order
from .dlpack import borrow, is_contiguous
from .dtypes import DType, numpy_name
from .errors import ArgumentError
from .guards import Seen
from .torch_tensors import TorchFramework

Reading = tuple[int, Hashable, Any]
"""Address, facts, and the owner that keeps the memory alive until the launches are issued."""


class Framework(Protocol):
    """A caller's framework. ``rank`` decides whose arrays come back when a call mixes them."""

    name: str
    rank: int

    def stream(self) -> int:
        """The caller's current stream."""

    def read(self, value: Any, stream: int) -> Reading:
        """The memory of ``value``, in order with ``stream``."""

    def seen(self, facts: Any) -> Seen:
        """The facts in the words of the guards."""

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: int) -> tuple[Any, int]:
        """A new array and its device address; address -1 asks for a copy from staging."""


class NumpyFramework:
    """Host arrays: used in place on a host device, else copied in and out."""

    name, rank = "numpy", 0

    def __init__(self, device: Device) -> None:
        self._host = is_host(device)

    def stream(self) -> int:
        return 0

    def read(self, value: Any, stream: int) -> Reading:
        array = np.asarray(value, order="C")
        return array.__array_interface__["data"][0], (array.shape, array.dtype), array

    def seen(self, facts: Any) -> Seen:
        return Seen("numpy", facts[0], numpy_name(facts[1]), (1, 0), True)

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: int) -> tuple[Any, int]:
        array = np.empty(shape, dtype.storage)
        address: int = array.ctypes.data
        return array, address if self._host and address % 16 == 0 else -1


class DlpackFramework:
    """Arrays that lend themselves by DLPack; outputs are DeviceArrays."""

    name, rank = "dlpack", 1

    def __init__(self, device: Device) -> None:
        self._device = device
        self._host = is_host(device)

    def stream(self) -> int:
        return 0

    def read(self, value: Any, stream: int) -> Reading:
        if value.__dlpack_device__()[0] == 1:
            capsule = value.__dlpack__()
        else:
            capsule = value.__dlpack__(stream=stream or 1)
        lent = borrow(capsule)
        return lent.address, lent[1:], capsule

    def seen(self, facts: Any) -> Seen:
        kind, index = facts[2]
        return Seen(self.name, facts[0], facts[1], (2 if kind == 13 else kind, index), facts[3])

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: int) -> tuple[Any, int]:
        array = DeviceArray(self._device, shape, dtype, stream)
        return array, array.address


class CupyFramework(DlpackFramework):
    """cupy arrays, read by DLPack; outputs are cupy arrays."""

    name, rank = "cupy", 2

    def stream(self) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: int) -> tuple[Any, int]:
        if dtype.name == "bfloat16":
            return super().empty(shape, dtype, stream)
        cupy = sys.modules["cupy"]
        index = self._device.place[1]
        with cupy.cuda.Device(index), cupy.cuda.ExternalStream(stream, index):
            array = cupy.empty(shape, dtype.storage)
        return array, int(array.data.ptr)


class InterfaceFramework(DlpackFramework):
    """Arrays with ``__cuda_array_interface__`` alone; outputs are DeviceArrays."""

    name = "interface"

    def read(self, value: Any, stream: int) -> Reading:
        facts = value.__cuda_array_interface__
        address, shape, strides = facts["data"][0] or 0, tuple(facts["shape"]), facts.get("strides")
        dtype = np.dtype(facts["typestr"])
        if strides is not None:
            strides = tuple(stride // dtype.itemsize for stride in strides)
        theirs = facts.get("stream")
        if theirs is not None and theirs != (stream or 1):
            order(self._device, 0 if theirs == 1 else theirs, stream)
        name = "bfloat16" if facts["typestr"] == "<V2" else numpy_name(dtype)
        place = (2, self._device.owner(address)) if address else self._device.place
        return address, (shape, name, place, is_contiguous(shape, strides)), value


class Frameworks:
    """Chooses the framework for each type of argument, once."""

    def __init__(self, device: Device, stream: int | None) -> None:
        self._device, self._stream = device, stream
        self._made: dict[str, Framework] = {}
        self._by_type: dict[type, Framework] = {}
        self.default: Framework = DlpackFramework(device)

    def of(self, value: Any) -> Framework:
        """The framework ``value`` belongs to."""
        return self._by_type.get(type(value)) or self._find(value)

    def of_call(self, found: Sequence[Framework]) -> Framework:
        """The framework of a call's outputs."""
        return max(found, key=lambda framework: framework.rank, default=self.default)

    def _find(self, value: Any) -> Framework:
        kind = self._kind(value)
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        self._by_type[type(value)] = self._made[kind]
        return self._made[kind]

    def _kind(self, value: Any) -> str:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return "torch"
        if isinstance(value, (np.ndarray, np.generic)):
            return "numpy"
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return "cupy" if type(value).__module__.split(".")[0] == "cupy" else "dlpack"
        if hasattr(type(value), "__cuda_array_interface__"):
            return "interface"
        raise ArgumentError(
            f"reading an argument: it is {type(value).__name__}, not a tensor; accepted: torch "
            "tensors, numpy arrays, and objects with __dlpack__ or __cuda_array_interface__"
        )

    def _make(self, kind: str) -> Framework:
        if kind == "torch":
            return TorchFramework(sys.modules["torch"], self._device, self._stream)
        makers: dict[str, Callable[[Device], Framework]] = {
            "numpy": NumpyFramework,
            "cupy": CupyFramework,
            "dlpack": DlpackFramework,
            "interface": InterfaceFramework,
        }
        return makers[kind](self._device)


def stream_handle(stream: Any) -> int:
    """The address of a stream given as an int or as torch's, cupy's or cuda.core's object."""
    if isinstance(stream, int):
        return 0 if stream == 1 else stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    raise ArgumentError(
        f"loading a model: stream= is {type(stream).__name__}; accepted: a stream's address as an "
        "int, or an object with __cuda_stream__ (torch.cuda.Stream, cupy.cuda.Stream)"
    )
