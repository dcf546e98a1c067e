"""Assertions on data: the flags that kernels set when a condition fails, and the error raised.

Each assertion has an int32 flag (``word`` in the manifest), which a kernel sets to 1 when the
condition fails. Flags lie in pinned memory that host and device share, so reading them needs no
synchronisation; they stay set until they are reported. Each arena has separate flags: its calls are
serialised, so no two kernels write a flag at once.
"""

import ctypes
from collections.abc import Sequence

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
        self.address = device.alloc_shared(size)
        self._memory = (ctypes.c_char * size).from_address(self.address)
        self._memory.raw = self._clear = bytes(size)
        starts = enumerate(range(self.address, self.address + size, _SPACING))
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

    def raise_failed(self, flags: AssertionFlags | None = None) -> None:
        """Raise if a flag of one arena (or of any) is set; clears these flags.

        All calls that use them must have finished on the device.
        """
        taken: set[Assertion] = set()
        taken.update(*(one.take() for one in ([flags] if flags else self._flags)))
        failed = [f"{one.message}\n  {one.place}" for one in self._assertions if one in taken]
        if failed:
            raise AssertionFailed(
                f"calling {self._model}: an assertion failed: " + "\n".join(failed)
            )

    def free(self) -> None:
        """Free the memory of all flags."""
        for flags in self._flags:
            self._device.free_shared(flags.address)
        self._flags.clear()
