"""Branches and loops at run time: the host reads the predicate and issues the steps inside.

A predicate in a tensor costs one synchronisation for each branch, and one for each iteration of a
while loop. A counted loop needs none. All devices share this code.
"""

import ctypes
from collections.abc import Callable

from ..devices.device import Device, Issue
from ..errors import DeviceError

Predicate = Callable[[int], bool]


def branch(predicate: Predicate, first: Issue, second: Issue) -> Issue:
    """Issues ``first`` if the predicate is true, else ``second``."""

    def issue(stream: int) -> None:
        (first if predicate(stream) else second)(stream)

    return issue


def while_loop(predicate: Predicate, entry: Issue, test: Issue, body: Issue) -> Issue:
    """Issues the entry, then the body while the predicate is true after the test."""

    def issue(stream: int) -> None:
        entry(stream)
        test(stream)
        while predicate(stream):
            body(stream)
            test(stream)

    return issue


def counted_loop(
    count: int, cells: "ctypes.Array[ctypes.c_uint64]", iteration: int, entry: Issue, body: Issue
) -> Issue:
    """Issues the entry, then the body ``count`` times; the cell ``iteration`` counts from 0."""

    def issue(stream: int) -> None:
        entry(stream)
        for number in range(count):
            cells[iteration] = number
            body(stream)

    return issue


def bool_reader(
    device: Device,
    cells: "ctypes.Array[ctypes.c_uint64]",
    slot: int,
    check: Callable[[], None] | None = None,
) -> Predicate:
    """Reads the bool whose address is in a cell, after synchronising the stream.

    ``check`` raises if an assertion has failed by then: a loop may never end on what was asserted.
    """
    value = ctypes.c_uint8()
    address = ctypes.addressof(value)

    def read(stream: int) -> bool:
        if device.capture(stream):
            raise DeviceError(
                f"recording a call on {device.name}: the model asks a tensor which way to go, and "
                "a recording cannot wait for it; call the model outside of graph capture"
            )
        device.copy_out(address, cells[slot], 1, stream)
        device.synchronize(stream)
        if check is not None:
            check()
        return bool(value.value)

    return read
