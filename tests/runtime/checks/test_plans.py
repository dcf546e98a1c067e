"""A manifest that says something else of a tensor than the plan and its kernels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.runtime import PackageError, load
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import DIAMOND, LOOPED, rewrite, write_demo

X = np.ones((2, 3), np.float32)


def changed(package: Path, *path: Any) -> Path:
    """The package with another value in its manifest: the keys that lead to it, and the value."""
    data = inner = json.loads((package / "manifest.json").read_bytes())
    for key in path[:-2]:
        inner = inner[key]
    inner[path[-2]] = path[-1]
    rewrite(package, data)
    return package


@pytest.mark.parametrize("wrapper", [None, DIAMOND, LOOPED])
def test_a_smaller_type_of_the_output_is_refused_before_anything_is_written(
    tmp_path: Path, device: FakeDevice, wrapper: str | None
) -> None:
    package = write_demo(tmp_path, **({"wrapper": wrapper} if wrapper else {}))
    with load(package, device) as model:
        model(X, X)
    changed(package, "outputs", 0, "dtype", "int8")
    refused = pytest.raises(PackageError, match="takes float32, and 'output0' is int8 by manifest")
    with load(package, device) as model, refused:
        model(X, X)


def test_another_type_of_an_input_or_a_weight(package: Path, device: FakeDevice) -> None:
    refused = pytest.raises(PackageError, match="add takes float32, and 'x' is float16")
    with load(changed(package, "inputs", 0, "dtype", "float16"), device) as model, refused:
        model(X.astype(np.float16), X)
    changed(package, "inputs", 0, "dtype", "float32")
    changed(package, "weights", 0, "dtype", "int32")
    refused = pytest.raises(PackageError, match="scale takes float32, and 'scale' is int32")
    weights = {"scale": np.ones(1, np.int32)}
    with load(package, device, weights=weights) as model, refused:
        model(X, X)


@pytest.mark.parametrize("shape", [["b"], ["b", "s", 1], ["b", "s - 1"], [1, 1]])
def test_another_shape_of_the_output(
    package: Path, device: FakeDevice, shape: list[str | int]
) -> None:
    refused = pytest.raises(PackageError, match="its outputs have the shapes")
    with load(changed(package, "outputs", 0, "shape", shape), device) as model, refused:
        model(X, X)
