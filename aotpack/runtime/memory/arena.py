"""Device memory that outlives a call: arenas for intermediates, and a bounded pool of arenas.

One arena serves one call in flight. It grows for larger sizes; a call with sizes it has seen
allocates nothing.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from ..checks.assertions import AssertionFlags
from ..devices.device import Device
from ..devices.fork import register_after_fork
from ..errors import AotpackError

PlanT = TypeVar("PlanT")
PLANS_KEPT = 64
_CHUNK = 1 << 24
_DEFAULT_STREAM = 0
_THREADS_STREAM = 2  # one handle, but a separate stream for each thread


class Arena(Generic[PlanT]):
    """Memory of one call in flight, with the plans prepared for its addresses.

    ``recording`` identifies the stream capture that records the arena's calls, if there is one.
    """

    def __init__(self, device: Device, recording: Hashable = None) -> None:
        self._device = device
        self.recording = recording
        self._event = device.event()
        self._capacity = 0
        self._counters = (0, 0)  # address and bytes
        self._staging: dict[Hashable, tuple[int, int]] = {}
        self._plans: OrderedDict[tuple[int, ...], PlanT] = OrderedDict()
        self.address = 0
        self.flags: AssertionFlags | None = None  # of its calls' assertions
        self.stream: int | None = None  # that of the last call

    def plan(self, sizes: tuple[int, ...]) -> PlanT | None:
        """The cached plan for these sizes."""
        plan = self._plans.get(sizes)
        if plan is not None:
            self._plans.move_to_end(sizes)
        return plan

    def keep(self, sizes: tuple[int, ...], plan: PlanT) -> None:
        """Cache a plan; evicts the least recently used one beyond the limit."""
        self._plans[sizes] = plan
        if len(self._plans) > PLANS_KEPT:
            self._plans.popitem(last=False)

    def forget(self) -> None:
        """Drop all plans: addresses in them have changed."""
        self._plans.clear()

    def reserve(self, size: int) -> None:
        """Ensure ``size`` bytes at ``address``; growing drops the plans for the old memory."""
        if size <= self._capacity:
            return
        self._plans.clear()
        if self.address:
            self._device.synchronize(None)
            self._device.free(self.address)
        self.address = self._capacity = 0
        self.address = self._device.alloc(size)
        self._capacity = size

    def counters(self, size: int, stream: int) -> int:
        """The address of at least ``size`` bytes that are zero before and after each launch.

        New ones are zeroed on ``stream``; if that is captured, at each replay.
        """
        address, capacity = self._counters
        if size <= capacity:
            return address
        self._plans.clear()
        if address:
            self._counters = (0, 0)
            self._device.synchronize(None)
            self._device.free(address)
        address = self._device.alloc(size)
        try:
            self._device.clear(address, size, stream)
            if self.recording is None:
                self._device.synchronize(stream)
        except BaseException:
            self._device.free(address)
            raise
        self._counters = (address, size)
        return address

    def staging(self, key: Hashable, size: int) -> int:
        """The address of a staging buffer of at least ``size`` bytes, cached under ``key``."""
        address, capacity = self._staging.get(key, (0, 0))
        if size <= capacity:
            return address
        if address:
            del self._staging[key]
            self._device.synchronize(None)
            self._device.free(address)
        self._staging[key] = (self._device.alloc(size), size)
        return self._staging[key][0]

    def begin(self, stream: int) -> None:
        """Order the next work on ``stream`` after the arena's last work."""
        if self.stream is None or (self.stream == stream != _THREADS_STREAM):
            return
        if self.stream == _DEFAULT_STREAM:
            self._device.record(self._event, _DEFAULT_STREAM)
        self._device.wait(self._event, stream)

    def end(self, stream: int) -> None:
        """Record the end of a call's work; on the default stream only when needed."""
        if stream != _DEFAULT_STREAM:
            self._device.record(self._event, stream)
        self.stream = stream

    def poison(self) -> None:
        """Fill all memory with NaN; no call may be in flight."""
        noise = np.full(_CHUNK, 255, np.uint8)
        for address, size in ((self.address, self._capacity), *self._staging.values()):
            for start in range(0, size, _CHUNK):
                part = min(_CHUNK, size - start)
                self._device.copy_in(address + start, noise.ctypes.data, part, _DEFAULT_STREAM)
                self._device.synchronize(_DEFAULT_STREAM)

    def free(self) -> None:
        """Free all memory; no call may be in flight."""
        others = (address for address, _ in (self._counters, *self._staging.values()))
        for address in (self.address, *others):
            if address:
                self._device.free(address)
        self.address = self._capacity = 0
        self._counters = (0, 0)
        self._staging.clear()
        self._plans.clear()
        self._device.drop(self._event)


class ArenaPool(Generic[PlanT]):
    """At most ``limit`` arenas; a call takes one and returns it, or waits for one.

    A call that is captured into the caller's graph runs at each replay. Its arena is reserved for
    calls of the same capture, which are serialised, until the pool is closed.
    """

    def __init__(self, model: str, device: Device, limit: int) -> None:
        self._model, self._device, self._limit = model, device, limit
        self._renew_lock()
        self._free: list[Arena[PlanT]] = []
        self._recorded: dict[Hashable, list[Arena[PlanT]]] = {}
        self._made = 0
        self._taken = 0
        self._idlers = 0  # threads that wait for idleness; new calls wait for them
        self._is_closed = False
        register_after_fork(self)

    def after_fork(self) -> None:
        """In a child process the calls of other threads never end; their arenas are lost."""
        self._renew_lock()
        self._made = len(self._free)
        self._taken = self._idlers = 0

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # notifies threads that wait for idleness
        self._queue = deque[threading.Condition]()  # waiting calls, first in, first out

    def take(self, stream: int, recording: Hashable = None) -> Arena[PlanT]:
        """Take an arena in FIFO order, preferably one whose last call was on the same stream."""
        with self._lock:
            if recording is not None or not self._queue:
                arena = self._next(stream, recording)
                if arena is not None:
                    return arena
            return self._wait_for_one(stream, recording)

    def _wait_for_one(self, stream: int, recording: Hashable) -> Arena[PlanT]:
        turn = threading.Condition(self._lock)
        self._queue.append(turn)
        try:
            while True:
                turn.wait()
                if recording is not None or self._queue[0] is turn:
                    arena = self._next(stream, recording)
                    if arena is not None:
                        return arena
        finally:
            self._queue.remove(turn)
            self._call_first()

    def _next(self, stream: int, recording: Hashable) -> Arena[PlanT] | None:
        """An arena, if calls may begin and one is available."""
        if self._is_closed:
            raise AotpackError(f"calling {self._model}: the model was closed. Load it again.")
        arena = None if self._idlers else self._available(stream, recording)
        self._taken += arena is not None
        return arena

    def _available(self, stream: int, recording: Hashable) -> Arena[PlanT] | None:
        if recording is not None:
            kept = self._recorded.setdefault(recording, [])
            return kept.pop() if kept else Arena(self._device, recording)
        for position in range(len(self._free) - 1, -1, -1):
            if self._free[position].stream == stream:
                return self._free.pop(position)
        if self._made < self._limit:
            arena: Arena[PlanT] = Arena(self._device)
            self._made += 1
            return arena
        return self._free.pop(0) if self._free else None

    def give(self, arena: Arena[PlanT]) -> None:
        """Return the arena of a call that has ended."""
        with self._lock:
            self._taken -= 1
            home = self._free if arena.recording is None else self._recorded[arena.recording]
            home.append(arena)
            self._call_first()
            if self._idlers:
                self._ended.notify_all()

    def _call_first(self) -> None:
        if self._queue:
            self._queue[0].notify()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Inside the block no call is in flight and none begins."""
        with self._lock:
            self._idlers += 1
            try:
                while self._taken:
                    self._ended.wait()
                yield
            finally:
                self._idlers -= 1
                for turn in self._queue:
                    turn.notify()

    def forget(self) -> None:
        """Drop the plans of all arenas; only inside ``idle``."""
        for arena in self._all():
            arena.forget()

    def poison(self) -> None:
        """Fill the memory of all arenas with NaN; only inside ``idle``."""
        for arena in self._all():
            arena.poison()

    def close(self) -> None:
        """Wait for calls in flight and free all arenas."""
        with self.idle():
            self._is_closed = True
            self._device.synchronize(None)
            for arena in self._all():
                arena.free()
            self._free.clear()
            self._recorded.clear()
            self._made = 0

    def _all(self) -> list[Arena[PlanT]]:
        return [*self._free, *chain.from_iterable(self._recorded.values())]
