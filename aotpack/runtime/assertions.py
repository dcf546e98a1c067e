"""The words that assertions leave, and the error that says so.

Each assertion has an int32 word, which a kernel sets to 1 when the condition does not hold. Words
lie in memory that host and device share, so looking at them waits for nothing and asks the device
for nothing. They stay set until they are told. Each arena has words of its own: its calls follow
each other, so no two kernels are at a word at once.

Rows S:H26.
"""

import ctypes
from collections.abc import Sequence

from .device import Device
from .errors import AssertionFailed
from .manifest import Assertion

WORD = 4
SPACING = 16  # bytes: the alignment that kernels are promised


class Assertions:
    """The words of all arenas of a model."""

    def __init__(self, model: str, device: Device, assertions: Sequence[Assertion]) -> None:
        self._model, self._device, self._assertions = model, device, tuple(assertions)
        self._memory: list[ctypes.Array[ctypes.c_char]] = []
        self._size = SPACING * len(self._assertions)
        self._clear = bytes(self._size)

    @property
    def is_in_use(self) -> bool:
        """True when some call may have left word."""
        return bool(self._memory)

    def words(self) -> dict[str, int]:
        """The addresses of new words, none of them set, by their names."""
        if not self._assertions:
            return {}
        address = self._device.alloc_shared(self._size)
        memory = (ctypes.c_char * self._size).from_address(address)
        memory.raw = self._clear
        self._memory.append(memory)
        return {a.word: address + SPACING * n for n, a in enumerate(self._assertions)}

    def is_any_set(self) -> bool:
        """True when an assertion has failed, as far as the device has come."""
        return any(memory.raw != self._clear for memory in self._memory)

    def tell(self) -> None:
        """Raise for the words that are set, and clear them; no call may be in flight."""
        failed: set[Assertion] = set()
        for memory in self._memory:
            found = memory.raw
            failed.update(
                one for n, one in enumerate(self._assertions) if any(found[SPACING * n :][:WORD])
            )
            memory.raw = self._clear
        if failed:
            told = [f"{one.message}\n  {one.place}" for one in self._assertions if one in failed]
            raise AssertionFailed(f"calling {self._model}: an assertion failed: " + "\n".join(told))

    def free(self) -> None:
        """Give the memory back."""
        for memory in self._memory:
            self._device.free_shared(ctypes.addressof(memory))
        self._memory.clear()
