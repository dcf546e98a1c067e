"""A bounded pool of arenas: a call takes one, or waits for one; some work waits for all calls.

An exception may end a call at any instruction. So no lock is held across instructions, and nothing
depends on a call's last steps: an arena whose call has died is found by the next call, which waits
for the device and starts it afresh.
"""

import itertools
import sys
from collections.abc import Callable, Hashable
from functools import partial
from types import FrameType
from typing import Generic, TypeVar

from ..devices.device import Device
from ..devices.fork import register_after_fork
from ..errors import AotpackError, ClosedError
from .arena import Arena, PlanT
from .ownership import Owned, frames_below
from .waiting import Bell, Line

ResultT = TypeVar("ResultT")


class ArenaPool(Generic[PlanT]):
    """At most ``limit`` arenas; a call takes one and returns it, or waits for one.

    A call that is captured into the caller's graph runs at each replay. Its arena is reserved for
    calls of the same capture, which are serialised, until the pool is closed.
    """

    def __init__(self, model: str, device: Device, limit: int) -> None:
        self._model, self._device, self._limit = model, device, limit
        self._arenas: dict[int, Arena[PlanT]] = {}
        self._known: tuple[Arena[PlanT], ...] = ()  # all of these, or the first
        self._recorded: dict[Hashable, dict[int, Arena[PlanT]]] = {}
        self._ends = itertools.count()  # numbers the ends of calls
        self._line = Line()  # of calls
        self._exclusive = Owned()  # by the frame that keeps calls out
        self._idler: Bell | None = None  # its bell
        self._idlers = Line()
        self._is_closed = False
        register_after_fork(self)

    def after_fork(self) -> None:
        """In a child process the calls of other threads never end; their arenas start afresh."""
        own = frames_below(sys._getframe())
        for owned in (self._exclusive, *(arena.owned for arena in self._all())):
            if owned.owner() not in own:
                owned.abandon()
        self._line.clear()
        self._idlers.clear()

    def take(self, frame: FrameType, stream: int, recording: Hashable = None) -> Arena[PlanT]:
        """Take an arena for ``frame``, in FIFO order, preferably one last used on ``stream``.

        The arena is the frame's until ``give`` or ``drop``, or until the frame ends.
        """
        arena = None
        if recording is not None or not self._line.bells:
            arena = self._next(frame, stream, recording)
        if arena is None:
            self._check_ends(frame)
            attempt = partial(self._next, frame, stream, recording)
            arena = self._line.wait(attempt, in_order=recording is None)
        if arena.is_dirty:
            arena.renew()
        arena.is_dirty = True
        return arena

    def give(self, arena: Arena[PlanT]) -> None:
        """Return the arena of a call that has ended well."""
        arena.last_end = next(self._ends)
        arena.is_dirty = False
        self.drop(arena)

    def drop(self, arena: Arena[PlanT]) -> None:
        """Return the arena of a call that has failed; the next call starts it afresh."""
        arena.owned.release()
        if self._line.bells:
            self._line.ring()
        idler = self._idler
        if idler is not None:
            idler.ring()

    def exclusively(self, doing: str, work: Callable[[], ResultT]) -> ResultT:
        """The result of ``work``; meanwhile no call is in flight and none begins."""
        self._enter(doing, sys._getframe())
        try:
            self.check_open(doing)
            return work()
        finally:
            self._leave()

    @property
    def is_closed(self) -> bool:
        """True after ``close``."""
        return self._is_closed

    def forget(self) -> None:
        """Drop the plans of all arenas; only inside ``exclusively``."""
        for arena in self._all():
            arena.forget()

    def poison(self) -> None:
        """Fill the memory of all arenas with NaN; only inside ``exclusively``."""
        for arena in self._all():
            arena.poison()

    def check_open(self, doing: str) -> None:
        """Refuse what a closed model cannot do; ``doing`` it to the model."""
        if self._is_closed:
            raise ClosedError(f"{doing} {self._model}: the model was closed. Load it again.")

    def close(self) -> None:
        """Wait for calls in flight and free all arenas; a second close does nothing."""
        self._enter("closing", sys._getframe())
        try:
            self._is_closed = True
            self._device.synchronize(None)
            for arena in self._all():
                arena.free()
            self._arenas.clear()
            self._recorded.clear()
            self._known = ()
        finally:
            self._leave()

    def _next(self, frame: FrameType, stream: int, recording: Hashable) -> Arena[PlanT] | None:
        """An arena, if calls may begin and one is available."""
        arena = self._claimed(frame, stream, recording)
        if self._idler is not None and self._exclusive.owner() is not None:
            if arena is not None:  # it came between the idler's look and its work
                self.drop(arena)
            return None
        if self._is_closed:
            self.check_open("calling")
        return arena

    def _claimed(self, frame: FrameType, stream: int, recording: Hashable) -> Arena[PlanT] | None:
        if recording is not None:
            return self._claimed_recorded(frame, recording)
        for arena in self._known:
            if arena.stream == stream and not arena.is_dirty and arena.owned.claim(frame):
                return arena
        for arena in self._known:
            if arena.is_dirty and arena.owned.claim(frame):
                return arena  # of a dead call: its memory may be all there is
        for number in range(len(self._known), self._limit):
            arena = self._arenas.setdefault(number, Arena(self._device))
            known = (self._arenas.get(one) for one in range(number + 1))
            self._known = tuple(one for one in known if one is not None)  # none after a close
            if arena.owned.claim(frame):
                return arena
        for arena in sorted(self._known, key=_last_end):
            if arena.owned.claim(frame):
                return arena
        return None

    def _claimed_recorded(self, frame: FrameType, recording: Hashable) -> Arena[PlanT]:
        """An arena of the capture. That of a dead call is not reused: it may run at replays."""
        kept = self._recorded.setdefault(recording, {})
        for number in itertools.count():
            arena = kept.setdefault(number, Arena(self._device, recording))
            if not arena.is_dirty and arena.owned.claim(frame):
                if not arena.is_dirty:
                    break
                arena.owned.release()
        return arena

    def _enter(self, doing: str, frame: FrameType) -> None:
        """Keep new calls out as long as ``frame`` runs, and wait for those in flight."""
        below = frames_below(frame.f_back)
        if not self._exclusive.claim(frame):
            self._check_outside(doing, self._exclusive, below)
            self._idlers.wait(lambda: self._exclusive.claim(frame) or None)
        bell = self._idler = Bell()
        for arena in self._all():
            if arena.owned.owner() is not None:
                self._check_outside(doing, arena.owned, below)
            while arena.owned.owner() is not None:
                bell.wait()

    def _leave(self) -> None:
        self._idler = None
        self._exclusive.release()
        self._idlers.ring()
        self._line.ring_all()

    def _check_ends(self, frame: FrameType) -> None:
        """Refuse a call that would wait for calls of its own thread that wait for it."""
        below = frames_below(frame.f_back)
        self._check_outside("calling", self._exclusive, below)
        known = self._known
        if len(known) == self._limit and all(one.owned.owner() in below for one in known):
            self._check_outside("calling", known[0].owned, below)

    def _check_outside(self, doing: str, owned: Owned, below: set[FrameType]) -> None:
        if owned.owner() in below:
            raise AotpackError(
                f"{doing} {self._model}: this thread is inside a call of the same model, which "
                "cannot end before. Do it after that call (not in a signal handler or finalizer); "
                "models without state take load(concurrency=...) calls at once."
            )

    def _all(self) -> list[Arena[PlanT]]:
        recorded = (list(kept.values()) for kept in list(self._recorded.values()))
        return [*list(self._arenas.values()), *itertools.chain.from_iterable(recorded)]


def _last_end(arena: Arena[PlanT]) -> int:
    return arena.last_end
