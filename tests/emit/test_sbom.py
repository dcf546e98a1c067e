"""The bill of materials: valid by CycloneDX's own schema, and nothing is missing in it."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from aotpack.emit import emit
from aotpack.stages import Emitted

from .builds import IDENTITY, tiny

SCHEMA = JsonStrictValidator(SchemaVersion.V1_6)
INFO = "tiny_model-1.0rc1.dist-info"


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emit(tiny(), IDENTITY, tmp_path_factory.mktemp("out"), weights="sidecar")


@pytest.fixture(scope="module")
def text(emitted: Emitted) -> str:
    with zipfile.ZipFile(emitted.wheel) as archive:
        return archive.read(f"{INFO}/sboms/aotpack.cdx.json").decode()


@pytest.fixture
def document(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


def test_the_schema_of_cyclonedx_accepts_it(text: str) -> None:
    assert SCHEMA.validate_str(text) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [("bomFormat", "SPDX"), ("serialNumber", "1"), ("components", [{"name": "x"}]), ("color", 1)],
)
def test_the_schema_refuses_other_documents(
    document: dict[str, Any], place: str, value: object
) -> None:
    assert SCHEMA.validate_str(json.dumps(document | {place: value})) is not None


def files_of(components: list[dict[str, Any]]) -> dict[str, str]:
    """Path -> sha256 of every file, those of nested components too."""
    found = {one["name"]: one["hashes"][0]["content"] for one in components if "hashes" in one}
    for one in components:
        found |= files_of(one.get("components", []))
    return found


def test_every_file_of_the_package_is_in_it_with_its_hash(
    emitted: Emitted, document: dict[str, Any]
) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        shipped = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.startswith(INFO)
        }
    assert emitted.sidecar is not None
    beside = hashlib.sha256(emitted.sidecar.read_bytes()).hexdigest()
    assert files_of(document["components"]) == shipped | {emitted.sidecar.name: beside}
    assert any("_runtime/model.py" in name for name in shipped)


def test_weights_inside_the_wheel_are_in_it(tmp_path: Path) -> None:
    emitted = emit(tiny(), IDENTITY, tmp_path)
    with zipfile.ZipFile(emitted.wheel) as archive:
        inside = archive.read("tiny_model/weights.safetensors")
        listed = json.loads(archive.read(f"{INFO}/sboms/aotpack.cdx.json"))["components"]
    digest = hashlib.sha256(inside).hexdigest()
    assert files_of(listed)["tiny_model/weights.safetensors"] == digest


def test_requirements_and_build_tools_are_in_it(document: dict[str, Any]) -> None:
    libraries = {one["name"]: one for one in document["components"] if one["type"] == "library"}
    assert set(libraries) == {"aotpack-runtime", "cuda-bindings", "numpy"}
    assert libraries["numpy"]["purl"] == "pkg:pypi/numpy"
    tools = [tool["name"] for tool in document["metadata"]["tools"]["components"]]
    assert tools == ["aotpack", "jinja2", "setuptools", "torch", "triton"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    known = {one["bom-ref"] for one in document["components"]}
    known.add(document["metadata"]["component"]["bom-ref"])
    for one in document["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= known
    assert {one["ref"] for one in document["dependencies"]} == {"tiny_model", "aotpack-runtime"}
