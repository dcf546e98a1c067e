"""manifest.json as values, and manifests that lack or misstate something."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import PackageError, load
from aotpack.runtime.manifest import read_checked, read_manifest

from .fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_what_a_build_wrote_is_read(package: Path) -> None:
    manifest = read_manifest(package)
    assert [str(size) for size in manifest.signature.sizes] == ["b in 1 to 8", "s in 0 to 32"]
    (weight,) = manifest.weights
    assert (weight.names, weight.shape, weight.constant) == (("scale", "alias"), (1,), False)
    args = manifest.kernels["scale"].args
    assert [(arg.pointer, arg.written) for arg in args] == [
        (True, False),
        (True, False),
        (True, True),
        (False, False),
    ]
    binary = manifest.kernels["add"].binaries["fake"]
    assert read_checked(package, binary.file, binary.sha256).startswith(b"def add(")


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
