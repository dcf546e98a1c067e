"""The software bill of materials (CycloneDX 1.6, PEP 770): every file, requirement and build tool.

Written by hand: the format's library adds a random serial number and the time to each document.
"""

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from packaging.utils import canonicalize_name

from aotpack.emit.content import Content
from aotpack.emit.names import Identity
from aotpack.stages import Precompiled
from aotpack.version import __version__

_RUNTIME, _RUNTIME_REF = "_runtime/", "aotpack-runtime"
_TOOLS = ("torch", "setuptools", "jinja2")  # beside the compilers that the build has asked


def build_tools(precompiled: Precompiled) -> dict[str, str]:
    """Name -> version of what made the wheel, sorted."""
    found = {name: version(name) for name in _TOOLS}
    return dict(sorted({**found, **precompiled.compilers, "aotpack": __version__}.items()))


def sbom_text(
    precompiled: Precompiled,
    identity: Identity,
    contents: Iterable[Content],
    requires: Sequence[str],
    beside: Content | None = None,
) -> bytes:
    """The document as JSON, without times and serial numbers, so that builds are reproducible.

    ``contents`` are the files of the package, ``beside`` is the file of weights next to the wheel.
    """
    name = identity.name
    runtime: list[dict[str, Any]] = []
    own: list[dict[str, Any]] = []
    for content in contents:
        part = runtime if content.path.startswith(_RUNTIME) else own
        part.append(_file(f"{name}/{content.path}", content))
    if beside is not None:
        own.append(_file(beside.path, beside))
    needed = [_requirement(text) for text in requires]
    components = [_runtime(runtime), *needed, *own]
    data = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [_tool(*tool) for tool in build_tools(precompiled).items()]},
            "component": _model(identity),
        },
        "components": components,
        "dependencies": [
            {"ref": name, "dependsOn": sorted(component["bom-ref"] for component in components)},
            {"ref": _RUNTIME_REF, "dependsOn": sorted(one["bom-ref"] for one in needed)},
        ],
        "compositions": [{"aggregate": "complete", "assemblies": [name]}],
    }
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def _model(identity: Identity) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": identity.name,
        "name": identity.name,
        "version": identity.version,
        "purl": f"pkg:pypi/{canonicalize_name(identity.name)}@{identity.version}",
    }


def _tool(name: str, found: str) -> dict[str, Any]:
    return {"type": "application", "bom-ref": f"tool:{name}", "name": name, "version": found}


def _runtime(files: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _RUNTIME_REF,
        "name": _RUNTIME_REF,
        "version": __version__,
        "licenses": [{"license": {"id": "MIT"}}],
        "components": files,
    }


def _requirement(name: str) -> dict[str, Any]:
    """A package that pip installs beside the wheel; its version is the installer's choice."""
    purl = f"pkg:pypi/{canonicalize_name(name)}"
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "scope": "required"}


def _file(path: str, content: Content) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": content.sha256.hex()}]
    return {"type": "file", "bom-ref": path, "name": path, "hashes": hashes}
