"""Compiled kernels by content. Safe under concurrent builds; a damaged entry counts as absent."""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from aotpack.stages import Binary


class KernelCache:
    """Binaries in a folder, by key; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str) -> Binary | None:
        """The binary stored under ``key``, or None when there is none or it is damaged."""
        if self.folder is None:
            return None
        try:
            return _decode(self._path(self.folder, key).read_bytes())
        except OSError:
            return None

    def put(self, key: str, binary: Binary) -> None:
        """Store a binary; a folder that cannot be written to only makes builds slower."""
        if self.folder is None:
            return
        path = self._path(self.folder, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(binary))
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / "kernels" / key[:2] / key


def _encode(binary: Binary) -> bytes:
    """A digest, a line of launch metadata, the code."""
    facts = {name: value for name, value in asdict(binary).items() if name != "code"}
    body = json.dumps(facts, sort_keys=True).encode() + b"\n" + binary.code
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _decode(entry: bytes) -> Binary | None:
    digest, _, body = entry.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    facts, _, code = body.partition(b"\n")
    return Binary(code=code, **json.loads(facts))
