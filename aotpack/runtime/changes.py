"""Arguments a call changes in place: writable, apart from each other, and brought back."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .device import Device
from .errors import ArgumentError
from .manifest import Signature

Copy = tuple[int, int, int]
"""(where a staged argument came from, where it was staged, bytes)."""


def changed_inputs(signature: Signature) -> tuple[int, ...]:
    """The numbers of the inputs that a call changes."""
    names = set(signature.updates)
    return tuple(i for i, tensor in enumerate(signature.inputs) if tensor.name in names)


def check_writable(signature: Signature, index: int, value: Any) -> None:
    """Refuse numpy values that are no writable memory of the right order."""
    if isinstance(value, (np.ndarray, np.generic)):
        if not isinstance(value, np.ndarray):
            raise _refused(signature, index, "is a scalar, which cannot be changed; give an array")
        if not value.flags.writeable:
            raise _refused(signature, index, "is read-only, but the model changes it; give a copy")
        if not value.flags.c_contiguous:
            raise _refused(signature, index, "is not contiguous; accepted: row-major memory")


def check_apart(
    signature: Signature, changed: Sequence[int], addresses: Sequence[int], sizes: Sequence[int]
) -> None:
    """Refuse a changed argument whose memory another argument shares."""
    spans = [(one, one + size) for one, size in zip(addresses, sizes, strict=True)]
    for index in changed:
        low, high = spans[index]
        for other, (start, end) in enumerate(spans):
            if other != index and low < end and start < high:
                shared = signature.inputs[other].name
                reason = f"shares memory with {shared!r}, but the model changes it; give a copy"
                raise _refused(signature, index, reason)


def copy_back(device: Device, copies: Sequence[tuple[bool, Copy]], stream: int) -> None:
    """Bring staged arguments back to where they came from; waits when that is the host."""
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
    name = signature.inputs[index].name
    return ArgumentError(f"calling {signature.name}: argument {name!r} {reason}.")
