"""The software bill of materials (CycloneDX 1.6, PEP 770): compilers, kernels and their hashes."""

import hashlib
import json
from typing import Any

from aotpack.emit.manifest import stored_binaries
from aotpack.emit.names import Identity
from aotpack.stages import Precompiled
from aotpack.version import __version__


def sbom_text(precompiled: Precompiled, identity: Identity) -> bytes:
    """The document as JSON, without times and serial numbers, so that builds are reproducible."""
    name, version = identity.name, identity.version
    tools = [
        {"type": "application", "name": tool, "version": found}
        for tool, found in sorted({**precompiled.compilers, "aotpack": __version__}.items())
    ]
    data = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": tools},
            "component": {
                "type": "machine-learning-model",
                "bom-ref": name,
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name.replace('_', '-')}@{version}",
            },
        },
        "components": [_runtime(), *_kernels(precompiled, name)],
    }
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def _runtime() -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": "aotpack-runtime",
        "name": "aotpack-runtime",
        "version": __version__,
        "licenses": [{"license": {"id": "MIT"}}],
    }


def _kernels(precompiled: Precompiled, name: str) -> list[dict[str, Any]]:
    paths = {path: binary for binary, path in reversed(stored_binaries(precompiled).items())}
    return [
        {
            "type": "file",
            "bom-ref": f"{name}/{path}",
            "name": f"{name}/{path}",
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(binary.code).hexdigest()}],
        }
        for path, binary in sorted(paths.items(), key=lambda entry: entry[0])
    ]
