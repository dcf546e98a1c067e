import sys
from pathlib import Path

import pytest

from aotpack.runtime import AotpackError, DeviceError, PackageError, load

from .fake_device import FakeDevice
from .packages import write_demo


def test_attributes(package: Path, device: FakeDevice) -> None:
    with load(package, device) as model:
        assert model.targets == ("fake",) and model.target == "fake" and model.state == {}
        assert str(model.signature).startswith(
            "demo(x: float32[b, s], y: float32[b, s]) -> output0"
        )
        assert repr(model) == "<Model demo 0.1.0 on fake:0>"
    assert not [name for name in sys.modules if name.startswith("_aotpack_package")]


@pytest.mark.parametrize("file", ["kernels/fake/add.py", "wrapper.py"])
def test_a_flipped_byte_is_found(package: Path, device: FakeDevice, file: str) -> None:
    data = bytearray((package / file).read_bytes())
    data[5] ^= 1
    (package / file).write_bytes(data)
    with pytest.raises(PackageError, match=f"{file} is damaged: its sha256"):
        load(package, device)


@pytest.mark.parametrize("file", ["kernels/fake/add.py", "wrapper.py", "manifest.json"])
def test_a_missing_file_is_named(package: Path, device: FakeDevice, file: str) -> None:
    (package / file).unlink()
    with pytest.raises(PackageError, match=f"{file} cannot be read"):
        load(package, device)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"schema": 1', '"schema": 9', "schema 9; this runtime reads schema 1"),
        ('"schema": 1', '"schema": ', "is not JSON"),
        ('"peak_bytes"', '"peak"', "lacks or misstates 'peak_bytes'"),
        ('"symbol": "add"', '"symbols": "add"', "misstates"),
        ('"b",\n', '"__import__(0)",\n', "the call of __import__ is not accepted"),
        ('"kind": "leaf"', '"kind": "heap"', "structure kind 'heap' is not known"),
    ],
)
def test_damaged_manifests(
    package: Path, device: FakeDevice, old: str, new: str, message: str
) -> None:
    text = (package / "manifest.json").read_text()
    assert old in text
    (package / "manifest.json").write_text(text.replace(old, new))
    with pytest.raises(PackageError, match=message):
        load(package, device)


def test_a_gpu_without_a_binary(tmp_path: Path) -> None:
    folder = write_demo(tmp_path / "demo", target="other")
    with pytest.raises(DeviceError, match="the package has binaries for"):
        load(folder, FakeDevice())


def test_concurrency_must_be_positive(package: Path, device: FakeDevice) -> None:
    with pytest.raises(AotpackError, match="concurrency=0; accepted: 1 or more"):
        load(package, device, concurrency=0)


def test_a_failed_load_gives_its_memory_back(package: Path) -> None:
    device = FakeDevice(capacity=10)
    with pytest.raises(DeviceError, match="no memory left"):
        load(package, device)
    assert device.is_closed and device.blocks == {}
