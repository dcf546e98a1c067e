"""Copies tensors of a file to a device while the file is read, without a map of it."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..devices.device import Device, active
from ..dtypes import Array
from ..files.checked import Identity
from ..files.chunks import read_chunks


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

    read_chunks(path, digests, copy, identity)
