"""Tensors that lie anywhere in a file, copied chunk by chunk."""

import gc
from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime.errors import DeviceError
from aotpack.runtime.files import chunks
from aotpack.runtime.memory import streaming
from aotpack.runtime.memory.streaming import Piece, stream
from tests.runtime.fake_device import FakeDevice


@pytest.mark.parametrize("large", [100, 10**6])
@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_pieces_come_whole_to_their_places(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch, chunk: int, large: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    monkeypatch.setattr(streaming, "LARGE", large)
    content = np.random.default_rng(0).integers(1, 256, 300, dtype=np.uint8)
    (tmp_path / "w").write_bytes(content.tobytes())
    base = device.alloc(1000)
    places = [(250, 300, 0), (8, 9, 600), (9, 9, 700), (9, 140, 100), (200, 250, 400)]
    stream(device, tmp_path / "w", (), [Piece(a, b, base + to) for a, b, to in places])
    memory = device.blocks[base][base - device.blocks[base].ctypes.data :]
    wanted = np.zeros(1000, np.uint8)
    for begin, end, to in places:
        wanted[to : to + end - begin] = content[begin:end]
    np.testing.assert_array_equal(memory[:1000], wanted)


@pytest.mark.parametrize(("large", "is_locked"), [(300, True), (301, False)])
def test_memory_of_a_large_file_is_locked_while_it_is_read(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch, large: int, is_locked: bool
) -> None:
    monkeypatch.setattr(streaming, "LARGE", large)
    (tmp_path / "w").write_bytes(bytes(300))
    base, seen, copied = device.alloc(300), list[bool](), device.copy_in

    def copy_in(target: int, source: int, size: int, stream: int) -> None:
        ends = {address: address + size for address, size in device.locked.items()}
        seen.append(any(begin <= source < source + size <= end for begin, end in ends.items()))
        copied(target, source, size, stream)

    monkeypatch.setattr(device, "copy_in", copy_in)
    stream(device, tmp_path / "w", (), [Piece(0, 300, base)])
    gc.collect()
    assert (seen, device.locked) == ([is_locked], {})


def test_without_memory_to_lock_a_large_file_is_read_as_a_small_one(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: int, size: int) -> None:
        raise DeviceError("locking bytes of the host: the limit of locked memory is reached")

    monkeypatch.setattr(streaming, "LARGE", 300)
    monkeypatch.setattr(device, "lock", refuse)
    (tmp_path / "w").write_bytes(bytes([7]) * 300)
    base = device.alloc(300)
    stream(device, tmp_path / "w", (), [Piece(0, 300, base)])
    assert set(device.blocks[base][base - device.blocks[base].ctypes.data :][:300]) == {7}
