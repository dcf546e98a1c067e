"""Device memory that outlives a call: an arena for intermediates, and a bounded pool of arenas.

One arena serves one call in flight. It grows when larger sizes come and is never allocated in a
call of sizes it has seen.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from .device import Device
from .errors import AotpackError
from .fork import tell_of_forks

PlanT = TypeVar("PlanT")
PLANS_KEPT = 64


class Arena(Generic[PlanT]):
    """Memory of one call in flight, with the plans prepared for its addresses."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._event = device.event()
        self._capacity = 0
        self._staging: dict[Hashable, tuple[int, int]] = {}
        self._plans: OrderedDict[tuple[int, ...], PlanT] = OrderedDict()
        self.address = 0
        self.stream: int | None = None  # that of the last call

    def plan(self, sizes: tuple[int, ...]) -> PlanT | None:
        """The plan kept for these sizes."""
        plan = self._plans.get(sizes)
        if plan is not None:
            self._plans.move_to_end(sizes)
        return plan

    def keep(self, sizes: tuple[int, ...], plan: PlanT) -> None:
        """Keep a plan; the one unused for longest goes when there are too many."""
        self._plans[sizes] = plan
        if len(self._plans) > PLANS_KEPT:
            self._plans.popitem(last=False)

    def forget(self) -> None:
        """Drop all plans: addresses in them have changed."""
        self._plans.clear()

    def reserve(self, size: int) -> None:
        """Have at least ``size`` bytes at ``address``; growing drops plans of the old memory."""
        if size <= self._capacity:
            return
        self._plans.clear()
        if self.address:
            self._device.synchronize(None)
            self._device.free(self.address)
        self.address = self._capacity = 0
        self.address = self._device.alloc(size)
        self._capacity = size

    def staging(self, key: Hashable, size: int) -> int:
        """The address of at least ``size`` bytes kept under ``key`` for copies in and out."""
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
        """Put the coming work on ``stream`` after the arena's last."""
        if self.stream is not None and self.stream != stream:
            self._device.wait(self._event, stream)

    def end(self, stream: int) -> None:
        """Mark the end of a call's work."""
        self._device.record(self._event, stream)
        self.stream = stream

    def free(self) -> None:
        """Give all memory back; no call may be in flight."""
        for address in (self.address, *(address for address, _ in self._staging.values())):
            if address:
                self._device.free(address)
        self.address = self._capacity = 0
        self._staging.clear()
        self._plans.clear()
        self._device.drop(self._event)


class ArenaPool(Generic[PlanT]):
    """At most ``limit`` arenas; a call takes one and gives it back, or waits for one."""

    def __init__(self, model: str, device: Device, limit: int) -> None:
        self._model, self._device, self._limit = model, device, limit
        self._changed = threading.Condition(threading.Lock())
        self._free: list[Arena[PlanT]] = []
        self._made = 0
        self._idlers = 0  # threads that want no call in flight: new calls let them go first
        self._is_closed = False
        tell_of_forks(self)

    def forked(self) -> None:
        """In a child process the other threads' calls never end: their arenas are lost."""
        self._changed = threading.Condition(threading.Lock())
        self._made = len(self._free)
        self._idlers = 0

    def take(self, stream: int) -> Arena[PlanT]:
        """An arena, best the one whose last call was on the same stream."""
        with self._changed:
            while True:
                if self._is_closed:
                    raise AotpackError(
                        f"calling {self._model}: the model was closed. Load it again."
                    )
                arena = None if self._idlers else self._available(stream)
                if arena is not None:
                    return arena
                self._changed.wait()

    def _available(self, stream: int) -> Arena[PlanT] | None:
        for position in range(len(self._free) - 1, -1, -1):
            if self._free[position].stream == stream:
                return self._free.pop(position)
        if self._made < self._limit:
            arena: Arena[PlanT] = Arena(self._device)
            self._made += 1
            return arena
        return self._free.pop(0) if self._free else None

    def give(self, arena: Arena[PlanT]) -> None:
        """End a call."""
        with self._changed:
            self._free.append(arena)
            self._changed.notify_all()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Inside the block no call is in flight and none begins."""
        with self._changed:
            self._idlers += 1
            try:
                while len(self._free) < self._made:
                    self._changed.wait()
                yield
            finally:
                self._idlers -= 1
                self._changed.notify_all()

    def forget(self) -> None:
        """Drop the plans of all arenas; only inside ``idle``."""
        for arena in self._free:
            arena.forget()

    def close(self) -> None:
        """Wait for calls in flight and free all arenas."""
        with self.idle():
            self._is_closed = True
            self._device.synchronize(None)
            for arena in self._free:
                arena.free()
            self._free.clear()
            self._made = 0
