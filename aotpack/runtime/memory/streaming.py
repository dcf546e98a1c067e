"""Copies tensors of a file to a device while the file is read, without a map of it.

A GPU copies from locked memory of the host by itself, many times as fast as from other memory:
5.4 GB take 0.12 s in place of 0.74 s (H200, PCIe 5, 2026-11-30). To lock it takes 0.01 s, so small
files do without.
"""

import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..devices.block import release
from ..devices.device import Device, active
from ..dtypes import Array
from ..errors import DeviceError
from ..files.checked import Identity
from ..files.chunks import Memory, plain_memory, read_chunks

LARGE = 256 << 20  # bytes that are copied
_PAGE = 4096
_TOUCHING = 8  # threads


class Piece(NamedTuple):
    """Bytes ``begin`` to ``end`` of the file, which go to ``address``."""

    begin: int
    end: int
    address: int


def stream(
    device: Device,
    path: Path,
    digests: Sequence[str],
    pieces: Iterable[Piece],
    identity: Identity | None = None,
) -> None:
    """Read the whole file, check it against ``digests`` if there are any, and copy its pieces."""
    ordered = sorted(piece for piece in pieces if piece.begin < piece.end)
    ends = [piece.end for piece in ordered]

    def copy(begin: int, chunk: Array) -> None:
        end, source = begin + len(chunk), chunk.ctypes.data
        with active(device):
            for piece in ordered[bisect_right(ends, begin) :]:
                first, last = max(begin, piece.begin), min(end, piece.end)
                if first >= last:
                    break
                target = piece.address + first - piece.begin
                device.copy_in(target, source + first - begin, last - first, 0)

    is_large = sum(piece.end - piece.begin for piece in ordered) >= LARGE
    memory: Memory = partial(_locked, device) if is_large else plain_memory
    read_chunks(path, digests, copy, identity, memory)


def _locked(device: Device, size: int) -> Array:
    """Memory that is locked until it is freed; other memory where a limit forbids that."""
    memory = plain_memory(size)
    _touch(memory)
    address = memory.ctypes.data
    try:
        with active(device):
            device.lock(address, size)
    except DeviceError:
        return memory
    weakref.finalize(memory, release, device, device.unlock, (address,)).atexit = False
    return memory


def _touch(memory: Array) -> None:
    """Make the system provide all pages, by several threads: locking would do so one by one."""
    step = -(-len(memory) // _TOUCHING)
    parts = [memory[begin : begin + step : _PAGE] for begin in range(0, len(memory), step)]
    started = []
    for part in parts:
        thread = threading.Thread(target=part.fill, args=(0,), daemon=True)
        try:
            thread.start()
            started.append(thread)
        except RuntimeError:  # the process may have no more threads
            part.fill(0)
    for thread in started:
        thread.join()
