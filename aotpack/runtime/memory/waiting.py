"""Threads that wait for each other without a lock: a waiter that dies holds nobody up.

Whoever changes what others wait for rings. A ring may be lost to an exception, so waiters also look
by themselves now and then.
"""

import itertools
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

ResultT = TypeVar("ResultT")
_PERIOD = 0.05  # seconds between two looks without a ring
_LOST = 1.0  # seconds without a look after which a waiter counts as dead


class Bell:
    """Wakes one thread, now or when it waits next."""

    __slots__ = ("_rings", "looked")

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self.looked = monotonic()

    def ring(self) -> None:
        """Wake the thread."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self) -> None:
        """Return at a ring, or after a short time."""
        with suppress(Empty):
            self._rings.get(timeout=_PERIOD)
        self.looked = monotonic()


class Line:
    """Waiting threads, served in the order of arrival; ``bells`` are theirs."""

    def __init__(self) -> None:
        self.bells: dict[int, Bell] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self.bells)

    def wait(self, attempt: Callable[[], ResultT | None], *, in_order: bool = True) -> ResultT:
        """The result of ``attempt``, which is called when it is this thread's turn."""
        number, bell = next(self._numbers), Bell()
        try:
            while True:
                self.bells[number] = bell  # again, in case it was taken for dead
                if not in_order or self._first() == number:
                    result = attempt()
                    if result is not None:
                        return result
                bell.wait()
        finally:
            self.bells.pop(number, None)
            self.ring()

    def ring(self) -> None:
        """Wake the thread whose turn it is."""
        bell = self.bells.get(self._first())
        if bell is not None:
            bell.ring()

    def ring_all(self) -> None:
        """Wake all threads."""
        for number in list(self.bells):
            bell = self.bells.get(number)
            if bell is not None:
                bell.ring()

    def clear(self) -> None:
        """Forget all threads: a forked child has none of them."""
        self.bells.clear()

    def _first(self) -> int:
        """The number of the thread whose turn it is; -1 for none. Forgets dead ones."""
        for number in sorted(self.bells):
            bell = self.bells.get(number)
            if bell is not None and monotonic() - bell.looked < _LOST:
                return number
            self.bells.pop(number, None)
        return -1
