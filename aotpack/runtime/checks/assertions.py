"""Assertions on data: the flags that kernels set when a condition fails, and the error raised.

Each assertion has an int32 flag (``word`` in the manifest), which a kernel sets to 1 when the
condition fails. Flags lie in pinned memory that host and device share, so reading them needs no
synchronisation; they stay set until they are reported. Each arena has separate flags: its calls are
serialised, so no two kernels write a flag at once.
"""

import ctypes
from collections.abc import Sequence

from ..devices.block import Block
from ..devices.device import Device
from ..errors import AssertionFailed
from ..manifest import Assertion

FLAG_BYTES = 4  # bytes
_SPACING = 16  # the pointer alignment that kernels assume


class AssertionFlags:
    """One flag for each assertion, initially clear; ``addresses`` are by name."""

    def __init__(self, device: Device, assertions: Sequence[Assertion]) -> None:
        self._assertions = assertions
        size = _SPACING * len(assertions)
        self._block = Block(device, size, is_shared=True)
        address = self._block.address
        self._memory = (ctypes.c_char * size).from_address(address)
        self._memory.raw = self._clear = bytes(size)
        starts = enumerate(range(address, address + size, _SPACING))
        self.addresses = {assertions[number].word: start for number, start in starts}

    @property
    def is_any_set(self) -> bool:
        """True when an assertion has failed, as far as the device has come."""
        return self._memory.raw != self._clear

    def take(self) -> set[Assertion]:
        """Return the failed assertions and clear the flags; the device must be idle on them."""
        found = self._memory.raw
        self._memory.raw = self._clear
        numbered = enumerate(self._assertions)
        return {one for n, one in numbered if any(found[_SPACING * n : _SPACING * n + FLAG_BYTES])}


class Assertions:
    """The assertions of a model, and the flags of all its arenas."""

    def __init__(self, model: str, device: Device, assertions: Sequence[Assertion]) -> None:
        self._model, self._device, self._assertions = model, device, tuple(assertions)
        self._flags: list[AssertionFlags] = []

    def __bool__(self) -> bool:
        return bool(self._assertions)

    def new_flags(self) -> AssertionFlags:
        """Allocate the flags of another arena."""
        flags = AssertionFlags(self._device, self._assertions)
        self._flags.append(flags)
        return flags

    @property
    def is_any_set(self) -> bool:
        """True when an assertion has failed, as far as the device has come."""
        return any(flags.is_any_set for flags in self._flags)

    def raise_failed(self, *used: AssertionFlags) -> None:
        """Raise if one of the flags is set, by default of those of all arenas; clears them.

        All calls that use them must have finished on the device.
        """
        failed = self.failure(*(used or self._flags))
        if failed is not None:
            raise failed

    def failure(self, *used: AssertionFlags) -> AssertionFailed | None:
        """The error for what failed in calls that have finished; clears their flags."""
        taken: set[Assertion] = set()
        taken.update(*(flags.take() for flags in used))
        failed = [f"{one.message}\n  {one.place}" for one in self._assertions if one in taken]
        if not failed:
            return None
        return AssertionFailed(f"calling {self._model}: an assertion failed: " + "\n".join(failed))

    def free(self) -> None:
        """Free the memory of all flags."""
        self._flags.clear()
