"""How a wheel was made: an in-toto statement that names the wheel and everything it came of."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from aotpack.emit import Inputs, emit
from aotpack.emit.provenance import as_data, provenance_file
from aotpack.ir.dtypes import DType
from aotpack.stages import Decisions
from aotpack.version import __version__

from .builds import IDENTITY, tiny

MODEL = Inputs("model.py", "ab" * 32, {"dtype": DType.BFLOAT16, "strict": True})


def statement(folder: Path, **options: Any) -> dict[str, Any]:
    emitted = emit(tiny(), IDENTITY, folder, **options)
    return dict(json.loads(provenance_file(emitted.wheel).read_bytes()))


def test_it_names_the_files_that_were_made(tmp_path: Path) -> None:
    told = statement(tmp_path, weights="sidecar")
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://slsa.dev/provenance/v1"
    made = {subject["name"]: subject["digest"]["sha256"] for subject in told["subject"]}
    files = [path for path in tmp_path.iterdir() if path.name in made]
    assert len(files) == len(made) == 2
    assert made == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_it_names_the_model_the_options_the_weights_and_the_tools(tmp_path: Path) -> None:
    definition = statement(tmp_path, inputs=MODEL)["predicate"]["buildDefinition"]
    asked = definition["externalParameters"]
    assert asked["targets"] == ["sm_80", "sm_90"] and asked["sizes"] == {"b": [1, 8]}
    assert asked["options"] == {"dtype": "bfloat16", "strict": True}
    materials = definition["resolvedDependencies"]
    assert materials[0] == {"name": "model.py", "digest": {"sha256": "ab" * 32}}
    assert [one["name"] for one in materials[1:]] == [
        "weights",
        "aotpack",
        "jinja2",
        "setuptools",
        "torch",
        "triton",
    ]
    uris = {one["name"]: one.get("uri") for one in materials}
    assert uris["aotpack"] == f"pkg:pypi/aotpack@{__version__}"
    assert uris["torch"].startswith("pkg:pypi/torch@2.")


def test_without_weights_and_without_a_file_it_names_neither(tmp_path: Path) -> None:
    definition = statement(tmp_path, weights="none")["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["model"] is None
    assert not [one for one in definition["resolvedDependencies"] if "digest" in one]


def function() -> None:
    """An option that is a function."""


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Path("/some/where/tuning.json"), "tuning.json"),
        (function, f"{__name__}.function"),
        (functools.partial(function), "functools.partial"),
        (object(), "builtins.object"),
        ((DType.INT8, None), ["int8", None]),
        (
            Decisions(2, {("sm_90", "k"): "f"}),
            {"candidates": 2, "measured": {"('sm_90', 'k')": "f"}},
        ),
    ],
)
def test_options_are_told_without_folders_and_addresses(value: object, data: object) -> None:
    assert as_data(value) == data
