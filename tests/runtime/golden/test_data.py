"""The golden data of a package: what its file holds, and what is drawn."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from aotpack.emit.package import reseal
from aotpack.runtime.errors import PackageError
from aotpack.runtime.golden.data import read_golden
from aotpack.runtime.manifest import read_manifest
from aotpack.runtime.safetensors import Stored
from tests.runtime.packages import write_demo

DRAWN = {"dtype": "float32", "shape": [2, 3], "seed": 0, "low": 0.0, "high": 1.0}


def with_drawn(folder: Path, facts: object) -> Path:
    """A package whose manifest says that x is drawn."""
    write_demo(folder)
    file = folder / "manifest.json"
    data = json.loads(file.read_bytes())
    data["golden"]["drawn"] = {"x": facts}
    file.write_text(json.dumps(data))
    reseal(folder)
    return folder


def tensors(folder: Path) -> Mapping[str, Stored]:
    """The golden data of a package."""
    return read_golden(folder / "golden.safetensors", read_manifest(folder).golden.drawn)


def test_inputs_are_read_or_drawn(tmp_path: Path) -> None:
    kept = tensors(write_demo(tmp_path / "kept"))
    assert np.array_equal(kept["inputs/x"].data, np.arange(6).reshape(2, 3))
    drawn = tensors(with_drawn(tmp_path / "drawn", DRAWN))
    x = drawn["inputs/x"]
    assert x.shape == x.data.shape == (2, 3) and ((x.data >= 0) & (x.data < 1)).all()
    assert np.array_equal(drawn["inputs/y"].data, kept["inputs/y"].data)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("dtype", "float31", "dtype is 'float31'"),
        ("shape", [-1], "shape.* is -1"),
        ("shape", [2**40, 2**40], "shape is float32"),
        ("low", "0", "low is '0'"),
        ("low", 2.0, "low is 2.0; accepted: at most high, 1.0"),
        ("seed", -1, "seed is -1"),
    ],
)
def test_misstated_draws_are_refused(tmp_path: Path, key: str, value: object, words: str) -> None:
    folder = with_drawn(tmp_path / "p", DRAWN | {key: value})
    with pytest.raises(PackageError, match=words):
        read_manifest(folder)
