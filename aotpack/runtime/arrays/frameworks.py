"""The caller's arrays: one class for each framework reads addresses and allocates outputs.

torch and cupy are looked up in ``sys.modules`` and never imported: a caller with their arrays has
imported them. Guards are checked once for each set of array facts (shapes, types, strides).
"""

import math
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ..checks.guards import Seen
from ..devices.device import Device, is_host
from ..dtypes import DType, numpy_name
from ..errors import ArgumentError
from ..strides import is_dense
from .device_array import DeviceArray, order
from .dlpack import import_capsule
from .orders import empty, from_memory, laid_out
from .torch_tensors import TorchFramework

Reading = tuple[list[int], Hashable, Any]
"""Addresses, facts, and what keeps the memory alive until the launches are issued."""

Spec = tuple[tuple[int, ...], tuple[int, ...], DType, tuple[int, ...]]
"""Shape, strides in elements, type and memory order of an array; no order is row-major."""

Copies = tuple[tuple[int, DType, tuple[int, ...]], ...]
"""The arguments that are copied before they are read: numbers, types and orders to make."""


class Framework(Protocol):
    """A caller's framework. The highest ``rank`` in a call decides the type of its results.

    A call reads all its arrays at once and allocates all outputs at once, to limit host time.
    """

    name: str
    rank: int

    def stream(self) -> int:
        """The caller's current stream."""

    def read(self, values: Sequence[Any], stream: int) -> Reading:
        """The addresses and facts of ``values``, ordered before ``stream``."""

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        """The facts of ``values`` in the form that guards check; called for new facts alone."""

    def copied(self, values: Sequence[Any], copies: Copies, stream: int) -> Sequence[Any]:
        """``values`` with some replaced by plain copies of other types, ready on ``stream``."""

    def empty(self, specs: Sequence[Spec], stream: int) -> tuple[list[Any], list[int]]:
        """Allocate arrays; returns them and their addresses (-1: copy from a staging buffer)."""


class NumpyFramework:
    """Host arrays: used in place by a CPU device, else copied in and out."""

    name, rank = "numpy", 0

    def __init__(self, device: Device, *, with_strides: bool) -> None:
        self._host, self._with_strides = is_host(device), with_strides

    def stream(self) -> int:
        return 0

    def read(self, values: Sequence[Any], stream: int) -> Reading:
        arrays = [one if type(one) is np.ndarray else np.asarray(one) for one in values]
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        if self._with_strides:
            return addresses, tuple([(a.shape, a.dtype, a.strides) for a in arrays]), arrays
        facts = [(array.shape, array.dtype, array.flags.c_contiguous) for array in arrays]
        return addresses, tuple(facts), arrays

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        found = []
        for (shape, dtype, layout), value in zip(facts, values, strict=True):
            if type(value) is int and dtype != np.int64:
                raise ArgumentError(f"it is {value}, out of range; accepted: -2**63 to 2**63 - 1")
            steps = _elements(layout, dtype.itemsize) if self._with_strides else None
            is_plain = is_dense(shape, steps) if self._with_strides else layout
            name = numpy_name(dtype)
            found.append(Seen("numpy", shape, name, (1, 0), True, not is_plain, True, steps))
        return found

    def copied(self, values: Sequence[Any], copies: Copies, stream: int) -> Sequence[Any]:
        made = list(values)
        for index, dtype, dims in copies:
            given = np.asarray(values[index])
            same = dtype.storage == given.dtype.name or not dtype.is_known_to_numpy
            made[index] = laid_out(given, given.dtype if same else dtype.storage, dims)
        return made

    def empty(self, specs: Sequence[Spec], stream: int) -> tuple[list[Any], list[int]]:
        arrays = [empty(shape, dtype.storage, order) for shape, _, dtype, order in specs]
        found = (array.ctypes.data for array in arrays)
        return arrays, [one if self._host and one % 16 == 0 else -1 for one in found]


class DlpackFramework:
    """Arrays that export DLPack; outputs are DeviceArrays."""

    name, rank = "dlpack", 1

    def __init__(self, device: Device) -> None:
        self._device = device
        self._host = is_host(device)

    def stream(self) -> int:
        return 0

    def read(self, values: Sequence[Any], stream: int) -> Reading:
        capsules = [_capsule(value, stream) for value in values]
        imported = [import_capsule(capsule) for capsule in capsules]
        return [one.address for one in imported], tuple([one[1:] for one in imported]), capsules

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        return [
            Seen(
                self.name,
                shape,
                dtype,
                (2 if kind == 13 else kind, index),
                is_dense(shape, steps),
                strides=steps,
            )
            for shape, dtype, (kind, index), steps in facts
        ]

    def copied(self, values: Sequence[Any], copies: Copies, stream: int) -> Sequence[Any]:
        raise NotImplementedError("no argument is seen as one to be copied")

    def empty(self, specs: Sequence[Spec], stream: int) -> tuple[list[Any], list[int]]:
        arrays = [
            DeviceArray(self._device, shape, dtype, stream, order)
            for shape, _, dtype, order in specs
        ]
        return arrays, [array.address for array in arrays]


class CupyFramework(DlpackFramework):
    """cupy arrays, read by DLPack; outputs are cupy arrays."""

    name, rank = "cupy", 2

    def stream(self) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)

    def empty(self, specs: Sequence[Spec], stream: int) -> tuple[list[Any], list[int]]:
        cupy = sys.modules["cupy"]
        with self._on(stream):
            arrays = [
                empty(shape, dtype.storage, order, cupy.empty)
                if dtype.is_known_to_numpy  # and so to cupy
                else DeviceArray(self._device, shape, dtype, stream, order)
                for shape, _, dtype, order in specs
            ]
        return arrays, [
            one.address if isinstance(one, DeviceArray) else int(one.data.ptr) for one in arrays
        ]

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        return [one._replace(converts=True) for one in super().seen(facts, values)]

    def copied(self, values: Sequence[Any], copies: Copies, stream: int) -> Sequence[Any]:
        made = list(values)
        with self._on(stream):
            for index, dtype, dims in copies:
                rows = values[index].transpose(dims) if dims else values[index]
                rows = rows.astype(dtype.storage, order="C")
                made[index] = from_memory(rows, dims) if dims else rows
        return made

    @contextmanager
    def _on(self, stream: int) -> Iterator[None]:
        """cupy uses our device and stream inside the block."""
        cuda, index = sys.modules["cupy"].cuda, self._device.place[1]
        with cuda.Device(index), cuda.ExternalStream(stream, index):
            yield


class InterfaceFramework(DlpackFramework):
    """Arrays with ``__cuda_array_interface__`` alone; outputs are DeviceArrays."""

    name = "interface"

    def read(self, values: Sequence[Any], stream: int) -> Reading:
        found = [self._fact(value, stream) for value in values]
        return [address for address, _ in found], tuple([facts for _, facts in found]), values

    def _fact(self, value: Any, stream: int) -> tuple[int, Hashable]:
        try:
            return self._read(value, stream)
        except ArgumentError:
            raise
        except Exception as error:  # the attribute is code of the array's library
            raise ArgumentError(
                "its __cuda_array_interface__ cannot be understood: "
                f"{type(error).__name__}: {error}"
            ) from None

    def _read(self, value: Any, stream: int) -> tuple[int, Hashable]:
        facts = value.__cuda_array_interface__
        address, shape, strides = facts["data"][0] or 0, tuple(facts["shape"]), facts.get("strides")
        if facts.get("mask") is not None:
            raise ArgumentError("it has a mask, which would be lost; accepted: plain arrays")
        if not address and math.prod(shape):
            raise ArgumentError(f"its array of shape {list(shape)} has no memory")
        dtype = np.dtype(facts["typestr"])
        if strides is not None:
            strides = tuple(stride // dtype.itemsize for stride in strides)
        theirs = facts.get("stream")
        if theirs is not None and theirs != (stream or 1):
            order(self._device, 0 if theirs == 1 else theirs, stream)
        name = "bfloat16" if facts["typestr"] == "<V2" else numpy_name(dtype)
        place = (2, self._device.owner(address)) if address else self._device.place
        return address, (shape, name, place, strides)


class MixedFramework:
    """Arguments of several frameworks; results are arrays of the one with the highest rank."""

    def __init__(self, found: Sequence[Framework]) -> None:
        self._found = found
        highest = max(found, key=lambda framework: framework.rank)
        self.name, self.rank = highest.name, highest.rank
        self.stream, self.empty = highest.stream, highest.empty

    def read(self, values: Sequence[Any], stream: int) -> Reading:
        pairs = zip(self._found, values, strict=True)
        parts = [framework.read((value,), stream) for framework, value in pairs]
        addresses = [address for part in parts for address in part[0]]
        return addresses, tuple([part[1] for part in parts]), parts

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        parts = zip(self._found, facts, values, strict=True)
        return [seen for framework, own, one in parts for seen in framework.seen(own, (one,))]

    def copied(self, values: Sequence[Any], copies: Copies, stream: int) -> Sequence[Any]:
        made = list(values)
        for index, dtype, dims in copies:
            found = self._found[index]
            (made[index],) = found.copied((values[index],), ((0, dtype, dims),), stream)
        return made


class Frameworks:
    """Finds the framework of each argument type once.

    They read torch's and numpy's strides only ``with_strides``, which some orders of inputs need.
    """

    def __init__(self, device: Device, stream: int | None, *, with_strides: bool = False) -> None:
        self._device, self._stream, self._with_strides = device, stream, with_strides
        self._made: dict[str, Framework] = {}
        self._by_type: dict[type, Framework] = {}
        self.default = self._make("numpy" if is_host(device) else "dlpack")  # of no arguments

    def of(self, value: Any) -> Framework:
        """The framework ``value`` belongs to."""
        return self._by_type.get(type(value)) or self._find(value)

    def of_call(self, values: Sequence[Any]) -> Framework:
        """The framework of all arguments of a call."""
        if not values:
            return self.default
        kind = type(values[0])
        for value in values:
            if type(value) is not kind:
                found = [self.of(one) for one in values]
                return found[0] if len(set(map(id, found))) == 1 else MixedFramework(found)
        return self._by_type.get(kind) or self._find(values[0])

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
        masked = sys.modules.get("numpy.ma")
        if masked is not None and isinstance(value, masked.MaskedArray):
            raise ArgumentError(
                "it is a masked array, whose mask would be lost; accepted: plain arrays, such as "
                "that of .filled(value)"
            )
        if isinstance(value, (np.ndarray, np.generic)) or type(value) is int:
            return "numpy"
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return "cupy" if type(value).__module__.split(".")[0] == "cupy" else "dlpack"
        if hasattr(type(value), "__cuda_array_interface__"):
            return "interface"
        found = "None" if value is None else type(value).__name__
        raise ArgumentError(
            f"it is {found}, not a tensor; accepted: torch tensors, numpy arrays "
            "and numbers, objects with __dlpack__ or __cuda_array_interface__, and int for an "
            "int64 of no dimensions"
        )

    def _make(self, kind: str) -> Framework:
        if kind == "torch":
            torch, strided = sys.modules["torch"], self._with_strides
            return TorchFramework(torch, self._device, self._stream, with_strides=strided)
        if kind == "numpy":
            return NumpyFramework(self._device, with_strides=self._with_strides)
        makers: dict[str, Callable[[Device], Framework]] = {
            "cupy": CupyFramework,
            "dlpack": DlpackFramework,
            "interface": InterfaceFramework,
        }
        return makers[kind](self._device)


def _elements(steps: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in elements of those in bytes; -1 for a part of an element."""
    return tuple(-1 if step % itemsize else step // itemsize for step in steps)


def _capsule(value: Any, stream: int) -> Any:
    """The capsule of an array of another framework, which may be wrong in any way."""
    try:
        is_host_memory = value.__dlpack_device__()[0] == 1
        return value.__dlpack__() if is_host_memory else value.__dlpack__(stream=stream or 1)
    except Exception as error:  # whatever its methods raise
        raise ArgumentError(
            f"it cannot be exported by DLPack: {type(error).__name__}: {error}"
        ) from error


def stream_handle(stream: Any) -> int:
    """The address of a stream given as an int or as torch's, cupy's or cuda.core's object."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return 0 if stream == 1 else stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    found = f"={stream!r}" if isinstance(stream, int) else f" is of type {type(stream).__name__}"
    raise ArgumentError(
        f"loading a model: stream{found}; accepted: a "
        "stream's address as an int, or an object with __cuda_stream__ "
        "(torch.cuda.Stream, cupy.cuda.Stream)"
    )
