"""Continuous batching: requests join and leave the sequences of one package between two steps.

One thread calls the package. In each turn it adds one chunk of one text that is not in the cache
yet, then one token to every other sequence: a long prompt delays the others by a chunk at a time.

Where sequences share pages, a request joins when there are pages for its whole text. When a
sequence needs a page and none is left, the one that joined last gives its pages back; it waits in
front of the others, and what it made is computed again with its prompt.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slots import GREEDY, Choice, refuse_foreign

Listener = Callable[[int | None, str], None]
"""Gets each token, then None with the reason of the end: stop, length, cancelled or an error."""


class Cache(Protocol):
    """Sequences by their numbers: ``Slots`` or ``Pool`` of examples/llm."""

    count: int
    capacity: int
    chunk: int
    vocabulary: int

    def reserve(self, slot: int, more: int) -> bool: ...
    def free(self, slot: int) -> None: ...
    def prefill(self, slot: int, tokens: Sequence[int], choice: Choice) -> int: ...
    def decode(
        self, tokens: Mapping[int, int], choices: Mapping[int, Choice]
    ) -> dict[int, int]: ...


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
    end: str = ""  # why it is to end before it has all tokens
    placed: int = 0  # tokens that are in the cache
    text: list[int] = field(init=False)  # the prompt and what was made

    def __post_init__(self) -> None:
        self.text = [*self.prompt]

    @property
    def made(self) -> int:
        return len(self.text) - len(self.prompt)

    @property
    def left(self) -> int:
        """How many tokens are not in the cache."""
        return len(self.text) - self.placed


class Engine:
    """The requests of a package that is loaded."""

    def __init__(self, cache: Cache, most_waiting: int = 64) -> None:
        self.cache, self.most_waiting = cache, most_waiting
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}  # in the order in which they joined
        self.ended: Counter[str] = Counter()
        self.tokens = self.prompt_tokens = self.steps = self.put_back = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False after ``close``."""
        return self._thread.is_alive() and not self._is_closed

    def submit(self, request: Request) -> None:
        """Queue a request; Busy if too many wait, ValueError for one that never fits."""
        if not request.prompt or request.tokens < 1:
            raise ValueError("a request needs a prompt and at least one token to make")
        refuse_foreign("the prompt", request.prompt, self.cache.vocabulary)
        if len(request.prompt) + request.tokens - 1 > self.cache.capacity:
            raise ValueError(
                f"{len(request.prompt)} tokens of prompt and {request.tokens} more do not fit: "
                f"the cache holds {self.cache.capacity} of each sequence"
            )
        with self._changed:
            if self._is_closed or len(self.waiting) >= self.most_waiting:
                self.ended["refused"] += 1
                raise Busy(f"{len(self.waiting)} requests wait; try again later")
            self.waiting.append(request)
            self._changed.notify()

    def cancel(self, request: Request, reason: str = "cancelled") -> None:
        """End it before the next step."""
        with self._changed:
            request.end = request.end or reason
            self._changed.notify()

    def close(self) -> None:
        """End all requests and the thread."""
        with self._changed:
            self._is_closed = True
            for request in [*self.waiting, *self.running.values()]:
                request.end = request.end or "cancelled"
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
        """End what is to end."""
        for request in [one for one in self.waiting if one.end]:
            self.waiting.remove(request)
            self._tell_end(request, request.end)
        for slot in [slot for slot, one in self.running.items() if one.end]:
            self._end(slot, self.running[slot].end)

    def _join(self) -> None:
        """Give free places to those who wait longest, as long as there is memory for them."""
        for slot in range(self.cache.count):
            if self.waiting and slot not in self.running:
                if not self.cache.reserve(slot, self.waiting[0].left):
                    return
                self.running[slot] = self.waiting.popleft()

    def _step(self) -> None:
        """One chunk of one text, then a token for each sequence that lacks one in the cache."""
        ready = [slot for slot, one in self.running.items() if one.left == 1]
        joining = next((slot for slot in self.running if slot not in ready), None)
        if joining is not None:
            self._prefill(joining, self.running[joining])
        given = self._with_memory(ready)
        self.steps += 1
        if given:
            choices = {slot: self.running[slot].choice for slot in given}
            for slot, token in self.cache.decode(given, choices).items():
                self.running[slot].placed += 1
                self._made(slot, token)

    def _with_memory(self, slots: Sequence[int]) -> dict[int, int]:
        """The tokens to add of those sequences that have memory for one, the oldest first."""
        for slot in slots:
            while slot in self.running and not self.cache.reserve(slot, 1):
                self._put_back(next(reversed(self.running)))
        return {slot: self.running[slot].text[-1] for slot in slots if slot in self.running}

    def _put_back(self, slot: int) -> None:
        """Take the memory of a sequence; it is the first to join again."""
        request = self.running.pop(slot)
        self.cache.free(slot)
        request.placed = 0
        self.put_back += 1
        with self._changed:
            self.waiting.appendleft(request)

    def _prefill(self, slot: int, request: Request) -> None:
        part = request.text[request.placed :][: self.cache.chunk]
        token = self.cache.prefill(slot, part, request.choice)
        self.prompt_tokens += len(part)
        request.placed += len(part)
        if not request.left:
            self._made(slot, token)

    def _made(self, slot: int, token: int) -> None:
        request = self.running[slot]
        request.text.append(token)
        self.tokens += 1
        if token in request.stop:
            self._end(slot, "stop")
            return
        request.listener(token, "")
        if request.made == request.tokens:
            self._end(slot, "length")

    def _end(self, slot: int, reason: str) -> None:
        request = self.running.pop(slot)
        self.cache.free(slot)
        self._tell_end(request, reason)

    def _tell_end(self, request: Request, reason: str) -> None:
        self.ended[reason if reason in ("stop", "length", "cancelled") else "error"] += 1
        request.listener(None, reason)
