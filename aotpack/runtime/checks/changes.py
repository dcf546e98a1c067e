"""Arguments a call changes in place: checked for writability and aliasing, and copied back."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..devices.device import Device
from ..errors import ArgumentError
from ..manifest import Signature
from ..tensors import Weight

Copy = tuple[int, int, int]
"""(where a staged argument came from, where it was staged, bytes)."""


def changed_inputs(signature: Signature) -> tuple[int, ...]:
    """The positions of the inputs that a call changes in place."""
    names = set(signature.updates)
    return tuple(i for i, tensor in enumerate(signature.inputs) if tensor.name in names)


def check_writable(signature: Signature, index: int, value: Any) -> None:
    """Refuse numpy arrays that are read-only or lie in another order."""
    if isinstance(value, (np.ndarray, np.generic)):
        if not isinstance(value, np.ndarray):
            raise _refused(signature, index, "is a scalar, which cannot be changed; give an array")
        if not value.flags.writeable:
            raise _refused(signature, index, "is read-only, but the model changes it; give a copy")
        order = signature.inputs[index].order
        rows = value.transpose(order) if len(order) == value.ndim > 0 else value
        if not rows.flags.c_contiguous:
            accepted = f"the order {', '.join(map(str, order))}" if order else "row-major memory"
            raise _refused(signature, index, f"is not contiguous; accepted: {accepted}")


def check_no_aliases(
    signature: Signature, changed: Sequence[int], addresses: Sequence[int], sizes: Sequence[int]
) -> None:
    """Refuse a changed argument whose memory overlaps another argument.

    Sweep over spans sorted by address: a span overlaps an earlier one if it begins before the
    furthest end so far. Spans that are only read may overlap each other.
    """
    numbers = [number for number, size in enumerate(sizes) if size]
    numbers.sort(key=addresses.__getitem__)
    is_changed = frozenset(changed).__contains__
    furthest, furthest_changed = (0, -1), (0, -1)  # (end, argument)
    for number in numbers:
        end = (addresses[number] + sizes[number], number)
        met = furthest if is_changed(number) else furthest_changed
        if addresses[number] < met[0]:
            pair = (number, met[1]) if is_changed(number) else (met[1], number)
            shared = signature.paths[pair[1]]
            reason = f"shares memory with {shared!r}, but the model changes it; give a copy"
            raise _refused(signature, pair[0], reason)
        furthest = max(furthest, end)
        if is_changed(number):
            furthest_changed = max(furthest_changed, end)


class Changed(NamedTuple):
    """The weights that calls change, with their addresses, all in one range of addresses."""

    parts: tuple[tuple[Weight, int], ...]
    low: int
    high: int


def changed_at(parts: Iterable[tuple[Weight, int]]) -> Changed:
    """The state of weights at their addresses."""
    found = tuple(parts)
    ends = (address + weight.size for weight, address in found)
    return Changed(found, min((one for _, one in found), default=0), max(ends, default=0))


def check_not_state(
    signature: Signature, state: Changed, addresses: Sequence[int], sizes: Sequence[int]
) -> None:
    """Refuse an argument that overlaps the weights and buffers that calls change."""
    pairs = zip(addresses, sizes, strict=True)
    if not any(address < state.high and state.low < address + size for address, size in pairs):
        return
    for weight, start in state.parts:
        end = start + weight.size
        for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
            if address < end and start < address + size:
                reason = f"is the memory of {weight.name!r}, which the call changes; give a copy"
                raise _refused(signature, number, reason)


def copy_back(device: Device, copies: Sequence[tuple[bool, Copy]], stream: int) -> None:
    """Copy staged arguments back to the caller's memory; synchronises if that is host memory."""
    for is_host_memory, (origin, staged, size) in copies:
        copy = device.copy_out if is_host_memory else device.copy
        copy(origin, staged, size, stream)
    if any(is_host_memory for is_host_memory, _ in copies):
        device.synchronize(stream)


def byte_sizes(signature: Signature, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The bytes of each argument."""
    pairs = zip(signature.inputs, shapes, strict=True)
    return tuple(math.prod(shape) * tensor.dtype.itemsize for tensor, shape in pairs)


def _refused(signature: Signature, index: int, reason: str) -> ArgumentError:
    name = signature.paths[index]
    return ArgumentError(f"calling {signature.name}: argument {name!r} {reason}.")
