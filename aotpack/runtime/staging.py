"""Copies between a caller's memory and an arena: what kernels cannot use where it lies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .arrays.frameworks import Copies, Framework, Spec
from .checks.changes import copy_back
from .checks.memory import LOW_ADDRESS
from .devices.device import Device
from .dtypes import present
from .memory.arena import Arena

POINTER_ALIGNMENT = 16


def are_usual(addresses: Sequence[int]) -> bool:
    """True for what kernels read where it lies, and which surely has memory: one look at each."""
    for address in addresses:  # noqa: SIM110 - a generator takes twice the time
        if address < LOW_ADDRESS or address % POINTER_ALIGNMENT:
            return False
    return True


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call that passed the guards.

    ``key`` names the plan: the sizes, behind the method if there are several. ``uploads`` are the
    arguments to copy to the device, ``copies`` those that their framework has to copy or convert
    before.
    """

    sizes: tuple[int, ...]
    key: tuple[int | str, ...]
    uploads: frozenset[int]
    input_bytes: tuple[int, ...]
    copies: Copies = ()


def stage_inputs(
    device: Device,
    arena: Arena[Any],
    checked: CheckedCall,
    inputs: Sequence[int],
    stream: int,
) -> list[int]:
    """Addresses of the inputs, with host and unaligned arguments copied to staging buffers."""
    staged = list(inputs)
    for index, size in enumerate(checked.input_bytes):
        is_upload = index in checked.uploads
        if size and (is_upload or inputs[index] % POINTER_ALIGNMENT):
            staged[index] = arena.staging(("input", index), size)
            copy = device.copy_in if is_upload else device.copy
            copy(staged[index], inputs[index], size, stream)
    return staged


def return_changes(
    device: Device,
    checked: CheckedCall,
    changed: Sequence[int],
    inputs: Sequence[int],
    staged: Sequence[int],
    stream: int,
) -> None:
    """Copy staged arguments that were changed back to the caller's memory."""
    copies = [
        (index in checked.uploads, (inputs[index], staged[index], checked.input_bytes[index]))
        for index in changed
        if inputs[index] != staged[index]
    ]
    copy_back(device, copies, stream)


def stage_outputs(
    arena: Arena[Any], specs: Sequence[Spec], outputs: list[int]
) -> list[tuple[int, int, int]]:
    """Staging buffers for outputs on the host: (output, address, bytes)."""
    copied: list[tuple[int, int, int]] = []
    if -1 not in outputs:  # as a rule
        return copied
    for index in [index for index, address in enumerate(outputs) if address == -1]:
        shape, _, dtype, _ = specs[index]
        size = math.prod(shape) * dtype.itemsize
        outputs[index] = arena.staging(("output", index), size) if size else 0
        copied.append((index, outputs[index], size))
    return copied


class Results:
    """The results of a call, whose shapes become known one after another; ``specs`` by then."""

    def __init__(
        self, caller: Framework, arena: Arena[Any], specs: Sequence[Spec | None], stream: int
    ) -> None:
        self._caller, self._arena, self._stream = caller, arena, stream
        self.values: list[Any] = [None] * len(specs)
        self.specs: list[Any] = [*specs]
        self.copied: list[tuple[int, int, int]] = []
        self.addresses = [0] * len(specs)
        self.add([(number, spec) for number, spec in enumerate(specs) if spec is not None])

    def add(self, outputs: Sequence[tuple[int, Spec]]) -> list[int]:
        """Allocate outputs by number; returns the addresses that kernels write to."""
        arrays, addresses = self._caller.empty([spec for _, spec in outputs], self._stream)
        for (number, spec), array, address in zip(outputs, arrays, addresses, strict=True):
            self.values[number], self.specs[number], self.addresses[number] = array, spec, address
        self.copied += stage_outputs(self._arena, self.specs, self.addresses)
        return [self.addresses[number] for number, _ in outputs]


def fetch(
    device: Device,
    results: list[Any],
    specs: Sequence[Spec],
    copied: Sequence[tuple[int, int, int]],
    stream: int,
) -> None:
    """Copy numpy results to the host and synchronise."""
    for index, address, size in copied:
        device.copy_out(results[index].ctypes.data, address, size, stream)
    device.synchronize(stream)
    for index, (_, _, dtype, _) in enumerate(specs):
        results[index] = present(results[index], dtype)
