"""Large files in chunks: each is checked before it is used, on as many threads as there are."""

import hashlib
import os
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import WeightError
from aotpack.runtime.dtypes import Array
from aotpack.runtime.files import chunks
from aotpack.runtime.files.checked import identity_of
from aotpack.runtime.files.chunks import read_chunks


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Seven chunks and a rest, of a smaller size than usual."""
    monkeypatch.setattr(chunks, "CHUNK", 1000)
    return np.random.default_rng(0).bytes(7300)


def digests(content: bytes) -> list[str]:
    parts = (content[at : at + 1000] for at in range(0, len(content), 1000))
    return [hashlib.sha256(part).hexdigest() for part in parts]


def read(path: Path, wanted: list[str]) -> bytes:
    found: dict[int, bytes] = {}
    read_chunks(path, wanted, lambda begin, chunk: found.update({begin: chunk.tobytes()}))
    return b"".join(part for _, part in sorted(found.items()))


@pytest.mark.parametrize("processors", [1, 3, 20])
def test_each_chunk_is_used_once(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(processors)))
    file = tmp_path / "w"
    for size in (7300, 7000, 1000, 1, 0):
        file.write_bytes(content[:size])
        assert read(file, digests(content[:size])) == read(file, []) == content[:size]


@pytest.mark.parametrize("at", [0, 999, 3500, 7299])
def test_a_flipped_bit_is_found_before_its_chunk_is_used(
    tmp_path: Path, content: bytes, at: int
) -> None:
    damaged = bytearray(content)
    damaged[at] ^= 1
    file, used = tmp_path / "w", set[int]()
    file.write_bytes(damaged)
    with pytest.raises(WeightError, match=f"w: bytes {at // 1000 * 1000:,} to .*, the build recor"):
        read_chunks(file, digests(content), lambda begin, chunk: used.add(begin))
    assert at // 1000 * 1000 not in used


def test_a_file_of_another_size_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w"
    file.write_bytes(content[:6300])
    with pytest.raises(WeightError, match="it has 6,300 bytes, the build recorded 8 chunks"):
        read(file, digests(content))


@pytest.mark.parametrize("is_replaced", [True, False])
def test_it_reads_the_file_whose_header_was_read(
    tmp_path: Path, content: bytes, is_replaced: bool
) -> None:
    file, used = tmp_path / "w", set[int]()
    file.write_bytes(content)
    with file.open("rb") as opened:
        identity = identity_of(opened, file)
        if is_replaced:
            (tmp_path / "other").write_bytes(content)
            (tmp_path / "other").replace(file)
    with pytest.raises(WeightError, match="replaced") if is_replaced else nullcontext():
        read_chunks(file, [], lambda begin, chunk: used.add(begin), identity)
    assert len(used) == (0 if is_replaced else 8)


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w"
    file.write_bytes(content)

    def cut(begin: int, chunk: Array) -> None:
        os.truncate(file, 500)

    with pytest.raises(WeightError, match="it ended at byte .* of 7,300"):
        read_chunks(file, digests(content), cut)


def test_an_error_of_the_use_ends_all_threads(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w"
    file.write_bytes(content)

    def fail(begin: int, chunk: Array) -> None:
        raise IndexError("of the use")

    before = threading.active_count()
    with pytest.raises(IndexError, match="of the use"):
        read_chunks(file, [], fail)
    assert threading.active_count() == before


def test_without_more_threads_one_reads(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (tmp_path / "w").write_bytes(content)
    assert read(tmp_path / "w", digests(content)) == content
