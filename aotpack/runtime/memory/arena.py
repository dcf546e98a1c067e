"""Memory that outlives a call: the intermediates of one call in flight, and its plans.

An arena grows for larger sizes; a call with sizes it has seen allocates nothing.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from ..checks.assertions import AssertionFlags
from ..devices.block import Block
from ..devices.device import Device
from ..errors import DeviceError
from .ownership import Owned

PlanT = TypeVar("PlanT")
PLANS_KEPT = 64
_CHUNK = 1 << 24
_DEFAULT_STREAM = 0
_THREADS_STREAM = 2  # one handle, but a separate stream for each thread


class Arena(Generic[PlanT]):
    """Memory of one call in flight, with the plans prepared for its addresses.

    ``recording`` identifies the stream capture that records the arena's calls, if there is one.
    ``is_dirty`` from the beginning of a call to its end: a call that died leaves it so.
    """

    def __init__(self, device: Device, recording: Hashable = None) -> None:
        self._device = device
        self.recording = recording
        self.owned = Owned()
        self.is_dirty = False
        self.last_end = -1  # the number of the last call that ended; larger numbers are later
        self._event: int | None = None
        self._memory: Block | None = None
        self._counters: Block | None = None
        self._staging: dict[Hashable, Block] = {}
        self._rests: dict[Hashable, Block] = {}  # memory of what waits for sizes
        self.generation = 0  # counts how often that has moved
        self._plans: OrderedDict[Hashable, PlanT] = OrderedDict()
        self.flags: dict[Hashable, AssertionFlags] = {}  # of its calls' assertions, by method
        self.stream: int | None = None  # that of the last call

    @property
    def address(self) -> int:
        """The address of the intermediates; 0 for none."""
        return self._memory.address if self._memory else 0

    def plan(self, key: Hashable) -> PlanT | None:
        """The cached plan of a method for some sizes."""
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
        return plan

    def keep(self, key: Hashable, plan: PlanT) -> None:
        """Cache a plan; evicts the least recently used one beyond the limit."""
        self._plans[key] = plan
        if len(self._plans) > PLANS_KEPT:
            self._plans.popitem(last=False)

    def forget(self) -> None:
        """Drop all plans: addresses in them have changed."""
        self._plans.clear()

    def reserve(self, size: int) -> None:
        """Ensure ``size`` bytes at ``address``; growing drops the plans for the old memory."""
        if size <= (self._memory.size if self._memory else 0):
            return
        self._plans.clear()
        if self._memory:
            self._device.synchronize(None)
            self._memory = None
        self._memory = Block(self._device, size)

    def rest(self, depth: int, size: int, most: int) -> int:
        """The address of ``size`` bytes for what waits for the read of sizes number ``depth``.

        New memory has ``most`` bytes, which the largest sizes need, if there are that many.
        """
        block = self._rests.get(depth)
        if size <= (block.size if block else 0):
            return block.address if block else 0
        self._replace(depth)
        try:
            block = Block(self._device, max(size, most))
        except DeviceError:
            block = Block(self._device, size)
        self._rests[depth] = block
        return block.address

    def rest_counters(self, depth: int, size: int) -> int:
        """``counters`` for what waits for the read of sizes number ``depth``."""
        key = "counters", depth
        block = self._rests.get(key)
        if size <= (block.size if block else 0):
            return block.address if block else 0
        self._replace(key)
        block = Block(self._device, size)
        self._device.clear(block.address, size)
        self._rests[key] = block
        return block.address

    def _replace(self, key: Hashable) -> None:
        """Free memory of what waits for sizes, once nothing uses it."""
        self.generation += 1
        if key in self._rests:
            self._device.synchronize(None)
            del self._rests[key]

    def counters(self, size: int) -> int:
        """The address of at least ``size`` bytes that are zero before and after each launch.

        A capture does not zero them at each replay: that would be a node before the first launch.
        """
        if size <= (self._counters.size if self._counters else 0):
            return self._counters.address if self._counters else 0
        self._plans.clear()
        if self._counters:
            self._device.synchronize(None)
            self._counters = None
        block = Block(self._device, size)
        self._device.clear(block.address, size)
        self._counters = block
        return block.address

    def staging(self, key: Hashable, size: int) -> int:
        """The address of a staging buffer of at least ``size`` bytes, cached under ``key``."""
        block = self._staging.get(key)
        if block is None or size > block.size:
            if block is not None:
                self._device.synchronize(None)
                block = None
                del self._staging[key]
            block = self._staging[key] = Block(self._device, size)
        return block.address

    def begin(self, stream: int) -> None:
        """Order the next work on ``stream`` after the arena's last work."""
        if self.stream is None or (self.stream == stream != _THREADS_STREAM):
            return
        if self.stream == _DEFAULT_STREAM:
            self._device.record(self._mark(), _DEFAULT_STREAM)
        self._device.wait(self._mark(), stream)

    def end(self, stream: int) -> None:
        """Record the end of a call's work; on the default stream only when needed."""
        if stream != _DEFAULT_STREAM:
            self._device.record(self._mark(), stream)
        self.stream = stream

    def poison(self) -> None:
        """Fill all memory with NaN; no call may be in flight."""
        noise = np.full(_CHUNK, 255, np.uint8)
        for block in filter(None, (self._memory, *self._staging.values(), *self._memories())):
            for start in range(0, block.size, _CHUNK):
                part = min(_CHUNK, block.size - start)
                self._device.copy_in(
                    block.address + start, noise.ctypes.data, part, _DEFAULT_STREAM
                )
                self._device.synchronize(_DEFAULT_STREAM)

    def renew(self) -> None:
        """Start afresh after a call that died, once its work has finished on the device.

        Flags stay: a failed assertion that nobody has raised may be among them.
        """
        self._device.synchronize(None)
        self.free()
        self.is_dirty = False

    def free(self) -> None:
        """Free all memory; no call may be in flight."""
        self._plans.clear()
        self._staging.clear()
        self._rests.clear()
        self._memory = self._counters = self.stream = None
        event, self._event = self._event, None
        if event is not None:
            self._device.drop(event)

    def _memories(self) -> list[Block]:
        """The memory of what waits for sizes, without counters, which are zero."""
        return [block for key, block in self._rests.items() if isinstance(key, int)]

    def _mark(self) -> int:
        """The event behind the last call's work."""
        if self._event is None:
            self._event = self._device.event()
        return self._event
