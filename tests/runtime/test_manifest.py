"""manifest.json as values, and manifests that lack or misstate something."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import PackageError, load

from .fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


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
