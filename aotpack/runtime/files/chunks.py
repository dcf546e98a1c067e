"""Reads a large file once, in chunks, by several threads: each chunk is checked, then used.

Nothing is read through a memory map, so a file that becomes shorter is an error in words.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..dtypes import Array
from ..errors import WeightError
from .checked import Identity, identity_of, open_at_once

CHUNK = 8 << 20
_MOST_THREADS = 16

Use = Callable[[int, Array], None]
"""Takes a chunk's first byte in the file, and its bytes, which are overwritten afterwards."""
Memory = Callable[[int], Array]
"""Gives so many bytes to read into."""
plain_memory: Memory = partial(np.empty, dtype=np.uint8)


def read_chunks(
    path: Path,
    digests: Sequence[str],
    use: Use,
    identity: Identity | None = None,
    memory: Memory = plain_memory,
) -> None:
    """Give every chunk of a file to ``use``, on any thread; with ``digests``, checked before.

    ``identity`` is that of the file whose header was read: offsets of one file mean nothing in
    another. All threads read into one piece of ``memory``.
    """
    try:
        with open(path, "rb", buffering=0, opener=open_at_once) as file:
            found = identity_of(file, path)
            if identity not in (None, found):
                raise WeightError(
                    f"reading {path}: the file was replaced or changed its size after its header "
                    "was read. Nothing of it was used. Read it again once it stays as it is."
                )
            size = found.size
            count = -(-size // CHUNK)
            if digests and len(digests) != count:
                raise WeightError(
                    f"reading {path}: it has {size:,} bytes, the build recorded {len(digests)} "
                    f"chunks of {CHUNK:,}. {_REMEDY}"
                )
            threads, longest = max(1, min(count, _MOST_THREADS, _processors())), min(CHUNK, size)
            whole = memory(threads * longest)
            buffers = [whole[n * longest :][:longest] for n in range(threads)]
            _Reader(path, file.fileno(), size, digests, use).run(count, buffers)
    except OSError as error:
        raise WeightError(f"reading {path}: {error.strerror}; check the path") from None


_REMEDY = (
    "The file has other weights or is damaged. Copy or download it again; other weights are read "
    "from a file of another name."
)


class _Reader:
    """The threads of one reading; the first error stops all."""

    def __init__(
        self, path: Path, number: int, size: int, digests: Sequence[str], use: Use
    ) -> None:
        self._path, self._number, self._size = path, number, size
        self._digests, self._use = digests, use
        self._waiting: Iterator[int] = iter(())  # chunks; threads take them in turn
        self._errors: list[BaseException] = []

    def run(self, count: int, buffers: Sequence[Array]) -> None:
        """Read ``count`` chunks, a thread for each buffer; the calling thread reads too."""
        self._waiting = iter(range(count))
        own, *others = buffers
        threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in others]
        started: list[threading.Thread] = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
        except RuntimeError:  # the process may have no more threads: those that are there suffice
            pass
        try:
            self._work(own)
        finally:
            self._waiting = iter(())
            for thread in started:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, buffer: Array) -> None:
        while (index := next(self._waiting, None)) is not None:
            chunk = buffer[: min(CHUNK, self._size - index * CHUNK)]
            try:
                self._read(chunk, index * CHUNK)
                self._check(chunk, index)
                self._use(index * CHUNK, chunk)
            except Exception as error:
                self._waiting = iter(())
                self._errors.append(error)

    def _read(self, chunk: Array, begin: int) -> None:
        rest, at = chunk.data, begin
        while rest:
            count = os.preadv(self._number, [rest], at)
            if count == 0:
                raise WeightError(
                    f"reading {self._path}: it ended at byte {at:,} of {self._size:,}. {_REMEDY}"
                )
            rest, at = rest[count:], at + count

    def _check(self, chunk: Array, index: int) -> None:
        if not self._digests:
            return
        found, wanted = hashlib.sha256(chunk.data).hexdigest(), self._digests[index]
        if found != wanted:
            begin = index * CHUNK
            raise WeightError(
                f"reading {self._path}: bytes {begin:,} to {begin + len(chunk):,} have sha256 "
                f"{found[:16]}..., the build recorded {wanted[:16]}... {_REMEDY}"
            )


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
