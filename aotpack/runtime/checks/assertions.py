"""Assertions on data: the memory that failed conditions are written to, and the error they raise.

Each assertion has an int32 word, which a kernel sets to 1 when the condition does not hold. Words
lie in memory that host and device share, so a look at them waits for nothing and asks the device
for nothing; they stay set until they are told. Each arena has words of its own: its calls follow
each other, so no two kernels are at a word at once.
"""

import ctypes
from collections.abc import Sequence

from ..devices.device import Device
from ..errors import AssertionFailed
from ..manifest import Assertion

WORD = 4  # bytes
_SPACING = 16  # the alignment that kernels are promised


class Words:
    """One word for each assertion, none of them set; ``addresses`` by their names."""

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
        """The assertions that failed. Clears the words, which the device must be done with."""
        found = self._memory.raw
        self._memory.raw = self._clear
        numbered = enumerate(self._assertions)
        return {one for n, one in numbered if any(found[_SPACING * n : _SPACING * n + WORD])}


class Assertions:
    """What a model asserts, and the words of all its arenas."""

    def __init__(self, model: str, device: Device, assertions: Sequence[Assertion]) -> None:
        self._model, self._device, self._assertions = model, device, tuple(assertions)
        self._words: list[Words] = []

    def __bool__(self) -> bool:
        return bool(self._assertions)

    def new_words(self) -> Words:
        """The words of another arena."""
        words = Words(self._device, self._assertions)
        self._words.append(words)
        return words

    @property
    def is_any_set(self) -> bool:
        """True when an assertion has failed, as far as the device has come."""
        return any(words.is_any_set for words in self._words)

    def tell(self, words: Words | None = None) -> None:
        """Raise if an assertion failed, by the words of one arena or of all; they are cleared.

        The device must be done with all calls that use them.
        """
        taken: set[Assertion] = set()
        taken.update(*(one.take() for one in ([words] if words else self._words)))
        told = [f"{one.message}\n  {one.place}" for one in self._assertions if one in taken]
        if told:
            raise AssertionFailed(f"calling {self._model}: an assertion failed: " + "\n".join(told))

    def free(self) -> None:
        """Give the memory back."""
        for words in self._words:
            self._device.free_shared(words.address)
        self._words.clear()
