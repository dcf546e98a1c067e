"""Continuous batching: requests join and leave the slots of one package between two steps.

One thread calls the package. In each turn it adds one chunk of one waiting prompt, then one token
to every sequence that has its prompt: a long prompt delays the others by a chunk at a time.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from generate import GREEDY, Choice, Slots

Listener = Callable[[int | None, str], None]
"""Gets each token, then None with the reason of the end: stop, length, cancelled or an error."""


class Busy(Exception):
    """As many requests wait as may."""


@dataclass(eq=False, slots=True)
class Request:
    """A prompt, how many tokens are wanted, and who hears of them."""

    prompt: Sequence[int]
    tokens: int
    listener: Listener
    choice: Choice = GREEDY
    stop: frozenset[int] = frozenset()
    is_cancelled: bool = False
    placed: int = 0  # tokens of the prompt that are in the cache
    made: int = 0
    last: int = field(default=0)


class Engine:
    """The requests of a package that is loaded."""

    def __init__(self, slots: Slots, most_waiting: int = 64) -> None:
        self.slots, self.most_waiting = slots, most_waiting
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self.tokens = self.finished = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a request; Busy if too many wait, ValueError for one that never fits."""
        capacity = self.slots.capacity
        if not request.prompt or request.tokens < 1:
            raise ValueError("a request needs a prompt and at least one token to make")
        if len(request.prompt) + request.tokens - 1 > capacity:
            raise ValueError(
                f"{len(request.prompt)} tokens of prompt and {request.tokens} more do not fit: "
                f"the cache holds {capacity} of each sequence"
            )
        with self._changed:
            if self._is_closed or len(self.waiting) >= self.most_waiting:
                raise Busy(f"{len(self.waiting)} requests wait; try again later")
            self.waiting.append(request)
            self._changed.notify()

    def cancel(self, request: Request) -> None:
        """Free its slot before the next step."""
        with self._changed:
            request.is_cancelled = True
            self._changed.notify()

    def close(self) -> None:
        """End all requests and the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self.waiting or self.running or self._is_closed):
                    self._changed.wait()
                self._leave()
                if self._is_closed:
                    return
                self._join()
            try:
                self._step()
            except Exception as error:  # of the device: no sequence can go on, new ones may
                for slot in [*self.running]:
                    self._end(slot, f"{type(error).__name__}: {error}")

    def _leave(self) -> None:
        """End what was cancelled, or all."""
        for request in [r for r in self.waiting if r.is_cancelled or self._is_closed]:
            self.waiting.remove(request)
            request.listener(None, "cancelled")
        for slot in [s for s, r in self.running.items() if r.is_cancelled or self._is_closed]:
            self._end(slot, "cancelled")

    def _join(self) -> None:
        """Give free slots to those who wait longest."""
        for slot in range(self.slots.count):
            if self.waiting and slot not in self.running:
                self.running[slot] = self.waiting.popleft()
                self.slots.free(slot)

    def _step(self) -> None:
        """One chunk of one prompt, then a token for each sequence that has its prompt."""
        ready = [s for s, r in self.running.items() if r.placed == len(r.prompt)]
        joining = next((s for s in self.running if s not in ready), None)
        if joining is not None:
            self._prefill(joining, self.running[joining])
        if ready:
            choices = {slot: self.running[slot].choice for slot in ready}
            found = self.slots.decode({slot: self.running[slot].last for slot in ready}, choices)
            for slot, token in found.items():
                self._made(slot, token)

    def _prefill(self, slot: int, request: Request) -> None:
        part = request.prompt[request.placed : request.placed + self.slots.chunk]
        token = self.slots.prefill(slot, part, request.choice)
        request.placed += len(part)
        if request.placed == len(request.prompt):
            self._made(slot, token)

    def _made(self, slot: int, token: int) -> None:
        request = self.running[slot]
        request.last, request.made = token, request.made + 1
        self.tokens += 1
        if token in request.stop:
            self._end(slot, "stop")
            return
        request.listener(token, "")
        if request.made == request.tokens:
            self._end(slot, "length")

    def _end(self, slot: int, reason: str) -> None:
        request = self.running.pop(slot)
        self.slots.free(slot)
        self.finished += 1
        request.listener(None, reason)
