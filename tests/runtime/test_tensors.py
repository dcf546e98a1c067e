"""Records of tensors in a manifest: what they say, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from aotpack.runtime import PackageError
from aotpack.runtime.manifest import parse_manifest, read_manifest

from .packages import write_derived

DERIVED = {"name": "square", "dtype": "float32", "shape": [1], "bytes": 4}


def changed(package: Path, **changes: Any) -> dict[str, Any]:
    """The manifest's value with a changed derived weight."""
    data: dict[str, Any] = json.loads((package / "manifest.json").read_text())
    assert data["derived"] == [DERIVED]
    data["derived"] = [{**DERIVED, **changes}]
    return data


def test_derived_weights_are_read(tmp_path: Path) -> None:
    folder = write_derived(tmp_path / "demo")
    (weight,) = read_manifest(folder).derived
    assert (weight.name, str(weight.dtype), weight.shape, weight.bytes) == (
        "square",
        "float32",
        (1,),
        4,
    )
    padded = parse_manifest(changed(folder, bytes=64), folder)
    assert padded.derived[0].bytes == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bytes": 3}, r"derived\[0\].bytes is 3; accepted: 4, the bytes of its elements, or more"),
        ({"bytes": -1}, r"derived\[0\].bytes"),
        ({"shape": [1] * 65}, r"derived\[0\].shape is a list of 65; accepted: at most 64"),
        ({"dtype": "float31"}, r"derived\[0\].dtype"),
        ({"name": "scale"}, r"the tensors'\] is 'scale' 2 times; accepted: different"),
        ({"more": 1}, r"derived\[0\].more is there; accepted: the keys bytes, dtype, name, shape"),
    ],
)
def test_a_damaged_derived_weight_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = write_derived(tmp_path / "demo")
    with pytest.raises(PackageError, match=message):
        parse_manifest(changed(folder, **changes), folder)
