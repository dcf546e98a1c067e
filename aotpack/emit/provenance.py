"""Of what, with what and how a wheel was made: an in-toto statement with a SLSA v1 predicate.

It lies beside the wheel. It has no time, folder or name of a machine: equal builds give equal
statements.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aotpack.emit.content import Content
from aotpack.emit.names import Identity
from aotpack.emit.sbom import build_tools
from aotpack.stages import Precompiled
from aotpack.version import __version__

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "pkg:pypi/aotpack#build/v1"
_OF_PYPI = ("aotpack", "jinja2", "setuptools", "torch", "triton")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What only the caller of a build knows: the model's file with its sha256, and the options."""

    model: str | None = None
    sha256: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def provenance_file(wheel: Path) -> Path:
    """The statement beside a wheel."""
    return wheel.with_name(f"{wheel.name}.provenance.json")


def provenance_text(
    precompiled: Precompiled,
    identity: Identity,
    inputs: Inputs,
    weights: Content | None,
    subjects: Mapping[str, str],
) -> bytes:
    """The statement as JSON with sorted keys; ``subjects`` maps names of files to their sha256."""
    tools = build_tools(precompiled)
    materials: list[dict[str, Any]] = [_tool(name, version) for name, version in tools.items()]
    if weights is not None:
        materials.insert(0, {"name": "weights", "digest": {"sha256": weights.sha256.hex()}})
    if inputs.model is not None:
        materials.insert(0, {"name": inputs.model, "digest": {"sha256": inputs.sha256}})
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": it}} for name, it in subjects.items()],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "model": inputs.model,
                    "name": identity.name,
                    "version": identity.version,
                    "targets": [str(target) for target in precompiled.targets],
                    "sizes": _sizes(precompiled),
                    "options": as_data(inputs.options),
                },
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": f"pkg:pypi/aotpack@{__version__}"}},
        },
    }
    return (json.dumps(statement, indent=1, sort_keys=True) + "\n").encode()


def _sizes(precompiled: Precompiled) -> dict[str, list[int]]:
    """The ranges of sizes, those of one of several methods behind its name."""
    return {
        f"{method}.{size.name}" if method else size.name: [size.low, size.high]
        for method, one in precompiled.rendered.entries.items()
        for size in one.signature.sizes
    }


def _tool(name: str, version: str) -> dict[str, Any]:
    kind = "pypi" if name in _OF_PYPI else "generic"
    return {"name": name, "uri": f"pkg:{kind}/{name}@{quote(version, safe='.')}"}


def as_data(value: Any) -> Any:
    """An option as JSON, without addresses and folders: functions and files by their names."""
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Path):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): as_data(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_data(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_data(getattr(value, one.name)) for one in fields(value)}
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
