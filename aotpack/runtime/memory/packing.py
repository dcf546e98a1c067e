"""Offsets for buffers with lifetimes: buffers that live at the same time never overlap."""

from bisect import insort
from collections.abc import Callable, Sequence

from ..plan import Buffer

ALIGNMENT = 256

_Order = Callable[[Buffer], tuple[int, ...]]


def pack(buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], int]:
    """Offsets in the order of ``buffers``, multiples of 256, and the total bytes.

    Two placement orders are tried, largest first and longest-lived first; the smaller total wins.
    """
    bound = live_bytes(buffers)
    best = _place(buffers, _largest_first)
    if best[1] > bound:
        other = _place(buffers, _longest_first)
        best = other if other[1] < best[1] else best
    return best


def live_bytes(buffers: Sequence[Buffer]) -> int:
    """The most aligned bytes live at one launch: the lower bound of any packing."""
    change: dict[int, int] = {}
    for buffer in buffers:
        change[buffer.first] = change.get(buffer.first, 0) + align(buffer.size)
        change[buffer.last + 1] = change.get(buffer.last + 1, 0) - align(buffer.size)
    most = alive = 0
    for launch in sorted(change):
        alive += change[launch]
        most = max(most, alive)
    return most


def align(size: int) -> int:
    """``size`` rounded up to the alignment."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _largest_first(buffer: Buffer) -> tuple[int, ...]:
    return (-buffer.size, buffer.first, buffer.last)


def _longest_first(buffer: Buffer) -> tuple[int, ...]:
    return (buffer.first - buffer.last, -buffer.size, buffer.first)


def _place(buffers: Sequence[Buffer], order: _Order) -> tuple[tuple[int, ...], int]:
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), sorted by offset
    total = 0
    for index in sorted(range(len(buffers)), key=lambda i: (order(buffers[i]), i)):
        _, size, first, last = buffers[index]
        if size == 0:
            continue
        size = align(size)
        offset = _best_gap(placed, size, first, last)
        offsets[index] = offset
        insort(placed, (offset, offset + size, first, last))
        total = max(total, offset + size)
    return tuple(offsets), total


def _best_gap(placed: list[tuple[int, int, int, int]], size: int, first: int, last: int) -> int:
    """The start of the smallest gap that fits between buffers alive in ``first..last``."""
    best = best_width = -1
    cursor = 0
    for offset, end, other_first, other_last in placed:
        if other_first > last or other_last < first:
            continue
        width = offset - cursor
        if width >= size and (best < 0 or width < best_width):
            best, best_width = cursor, width
        if end > cursor:
            cursor = end
    return cursor if best < 0 else best
