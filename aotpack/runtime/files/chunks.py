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
    another. Each thread reads into its own piece of ``memory``, while others may wait for theirs.
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
            threads = max(1, min(count, _MOST_THREADS, _processors()))
            _Reader(path, file.fileno(), size, digests, use, memory).run(count, threads)
    except OSError as error:
        raise WeightError(f"reading {path}: {error.strerror}; check the path") from None


_REMEDY = "The file is truncated, damaged or of another model; copy or download it again."


class _Reader:
    """The threads of one reading; the first error stops all."""

    def __init__(
        self,
        path: Path,
        number: int,
        size: int,
        digests: Sequence[str],
        use: Use,
        memory: Memory,
    ) -> None:
        self._path, self._number, self._size = path, number, size
        self._digests, self._use, self._memory = digests, use, memory
        self._waiting: Iterator[int] = iter(())  # chunks; threads take them in turn
        self._errors: list[BaseException] = []

    def run(self, count: int, threads: int) -> None:
        """Read ``count`` chunks with so many threads, of which the calling one is the last."""
        self._waiting = iter(range(count))
        others = [threading.Thread(target=self._work, daemon=True) for _ in range(threads - 1)]
        started: list[threading.Thread] = []
        try:
            for thread in others:
                thread.start()
                started.append(thread)
        except RuntimeError:  # the process may have no more threads: those that are there suffice
            pass
        try:
            self._work()
        finally:
            self._waiting = iter(())
            for thread in started:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        try:
            buffer = self._memory(min(CHUNK, self._size))
            while (index := next(self._waiting, None)) is not None:
                chunk = buffer[: min(CHUNK, self._size - index * CHUNK)]
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
