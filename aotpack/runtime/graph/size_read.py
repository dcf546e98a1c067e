"""Sizes that data decide: the host reads them, then issues what waits for them.

It waits once for all sizes that are ready together. What follows is prepared for their values, and
kept for calls with equal ones.
"""

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ..arrays.frameworks import Spec
from ..devices.device import Device, Issue
from ..errors import DeviceError
from ..memory.arena import PLANS_KEPT

Cells = ctypes.Array[ctypes.c_uint64]


class Late(NamedTuple):
    """An output whose shape a size read makes known: its number and its cell."""

    number: int
    cell: int
    spec: Spec


class Rest(NamedTuple):
    """What waits for sizes, prepared for their values.

    The first of its ``cells`` are the outer ones. ``generation`` is that of the arena's memory.
    """

    cells: Cells
    issue: Issue
    outputs: tuple[Late, ...]
    generation: int


class Outputs(Protocol):
    """The outputs of a call."""

    def add(self, outputs: Sequence[tuple[int, Spec]]) -> list[int]:
        """Allocate outputs by number; returns their addresses."""


OutputsT = TypeVar("OutputsT", bound=Outputs)


class LateOutputs:
    """The outputs of the call in progress, which are allocated once their shapes are known."""

    def __init__(self) -> None:
        self._current: Outputs | None = None

    def begin(self, outputs: OutputsT) -> OutputsT:
        """A call begins: ``outputs`` are its own."""
        self._current = outputs
        return outputs

    def end(self) -> None:
        """The call has ended; nothing here keeps its outputs alive."""
        self._current = None

    def add(self, outputs: Sequence[tuple[int, Spec]]) -> list[int]:
        """Allocate outputs of the call in progress."""
        assert self._current is not None
        return self._current.add(outputs)


class SizeReader:
    """Reads the sizes whose counts lie at the addresses in some cells, then issues the rest.

    ``bind`` prepares the rest for sizes; ``generation`` tells that of the arena's memory. ``check``
    raises if an assertion has failed by then.
    """

    def __init__(
        self,
        device: Device,
        cells: Cells,
        slots: Sequence[int],
        bind: Callable[[tuple[int, ...]], Rest],
        generation: Callable[[], int],
        outputs: LateOutputs,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._device, self._cells, self._slots = device, cells, tuple(slots)
        self._bind, self._generation, self._outputs, self._check = bind, generation, outputs, check
        self._kept: OrderedDict[tuple[int, ...], Rest] = OrderedDict()

    def __call__(self, stream: int) -> None:
        """Read, allocate outputs, issue."""
        values = self._read(stream)
        rest = self._kept.pop(values, None)
        if rest is None or rest.generation != self._generation():
            rest = self._bind(values)
        self._kept[values] = rest
        if len(self._kept) > PLANS_KEPT:
            self._kept.popitem(last=False)
        ctypes.memmove(rest.cells, self._cells, ctypes.sizeof(self._cells))
        if rest.outputs:
            made = self._outputs.add([(one.number, one.spec) for one in rest.outputs])
            for one, address in zip(rest.outputs, made, strict=True):
                rest.cells[one.cell] = address
        rest.issue(stream)

    def _read(self, stream: int) -> tuple[int, ...]:
        """The sizes, after one wait for the stream."""
        if self._device.capture(stream):
            raise DeviceError(
                f"recording a call on {self._device.name}: the model asks a tensor for a size, and "
                "a recording cannot wait for it; call the model outside of graph capture"
            )
        found = (ctypes.c_int64 * len(self._slots))()
        start = ctypes.addressof(found)
        for number, slot in enumerate(self._slots):
            self._device.copy_out(start + 8 * number, self._cells[slot], 8, stream)
        self._device.synchronize(stream)
        if self._check is not None:
            self._check()
        return tuple(found)
