"""Branches and loops at run time: the host reads the predicate and issues the steps inside.

Where a tensor decides, the host waits for it: one synchronisation for each branch, and one for each
turn of a loop that asks. A counted loop waits for nothing. All devices share this code.
"""

import ctypes
from collections.abc import Callable

from ..devices.device import Device, Issue
from ..errors import DeviceError

Decide = Callable[[int], bool]


def branch(decide: Decide, first: Issue, second: Issue) -> Issue:
    """Issues the first where the decision is true, else the second."""

    def issue(stream: int) -> None:
        (first if decide(stream) else second)(stream)

    return issue


def while_loop(decide: Decide, entry: Issue, test: Issue, body: Issue) -> Issue:
    """Issues the entry, then the body as often as the decision after the test is true."""

    def issue(stream: int) -> None:
        entry(stream)
        test(stream)
        while decide(stream):
            body(stream)
            test(stream)

    return issue


def counted_loop(
    count: int, cells: "ctypes.Array[ctypes.c_uint64]", turn: int, entry: Issue, body: Issue
) -> Issue:
    """Issues the entry, then the body so often; the cell ``turn`` counts from 0."""

    def issue(stream: int) -> None:
        entry(stream)
        for number in range(count):
            cells[turn] = number
            body(stream)

    return issue


def reader(device: Device, cells: "ctypes.Array[ctypes.c_uint64]", slot: int) -> Decide:
    """Whether the bool is true whose address is in a cell, once all before it is done."""
    seen = ctypes.c_uint8()
    address = ctypes.addressof(seen)

    def decide(stream: int) -> bool:
        if device.capture(stream):
            raise DeviceError(
                f"recording a call on {device.name}: the model asks a tensor which way to go, and "
                "a recording cannot wait for it; call the model outside of graph capture"
            )
        device.copy_out(address, cells[slot], 1, stream)
        device.synchronize(stream)
        return bool(seen.value)

    return decide
