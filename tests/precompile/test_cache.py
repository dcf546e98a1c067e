import threading
from dataclasses import replace
from pathlib import Path

from aotpack.precompile.cache import KernelCache
from aotpack.stages import Binary

BINARY = Binary("k", "sm_90", "k", b"\x7fELF\n\0code\n", "cubin", 4, 1, 2048, 0, 1, 32, 0)
KEY = "ab" + "0" * 62


def test_what_is_put_is_found(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, BINARY)
    assert cache.get(KEY) == BINARY


def test_a_damaged_entry_counts_as_absent_and_is_replaced(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.put(KEY, BINARY)
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    for damaged in (entry.read_bytes()[:-1], b"", entry.read_bytes().replace(b"code", b"edoc")):
        entry.write_bytes(damaged)
        assert cache.get(KEY) is None
    cache.put(KEY, BINARY)
    assert cache.get(KEY) == BINARY


def test_writers_at_the_same_time_leave_one_whole_entry(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    large = replace(BINARY, code=bytes(300_000))
    writers = [threading.Thread(target=cache.put, args=(KEY, large)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert cache.get(KEY) == large
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_without_a_folder_nothing_is_kept() -> None:
    cache = KernelCache(None)
    cache.put(KEY, BINARY)
    assert cache.get(KEY) is None


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    cache = KernelCache(file)
    cache.put(KEY, BINARY)
    assert cache.get(KEY) is None
