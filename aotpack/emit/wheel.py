"""From the files of a package to a wheel: setuptools writes it, ``seal`` makes it reproducible.

Large and late files (weights, the bill of materials) are added when the wheel is sealed, so weights
are copied once. Times, modes and order are fixed; RECORD is made anew.
"""

import base64
import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotpack.emit.content import Content
from aotpack.emit.platforms import OLDEST_PYTHON
from aotpack.errors import AotpackError

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SOURCE_DATE_EPOCH = "315532800"
_MODE = 0o100644 << 16
_UNIX = 3
_BUILD = (
    "import sys; from setuptools import build_meta; "
    "options = ['--compression=stored', '--plat-name', sys.argv[2]]; "
    "print(build_meta.build_wheel(sys.argv[1], {'--build-option': options}))"
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Metadata of a wheel beside its name: platform tag, requirements, entry point, README."""

    platform: str = "any"
    requires: tuple[str, ...] = ("cuda-bindings", "numpy")
    entry_point: bool = True
    description: str = ""
    classifiers: tuple[str, ...] = ()


def build_wheel(
    project: Path, name: str, version: str, contents: Sequence[Content], facts: Facts
) -> Path:
    """A plain wheel of ``contents``, built by setuptools in the empty folder ``project``."""
    for content in contents:
        content.write(project / name)
    licence = next(content for content in contents if content.path == "_runtime/LICENSE")
    (project / "LICENSE.aotpack").write_bytes(b"".join(licence.walk()))
    (project / "README.md").write_text(facts.description, encoding="utf-8")
    (project / "pyproject.toml").write_text(
        _project(name, version, facts, _packages(name, contents))
    )
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, "dist", facts.platform],
        cwd=project,
        env={**os.environ, "SOURCE_DATE_EPOCH": _SOURCE_DATE_EPOCH, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
    )
    if done.returncode:
        raise AotpackError(
            f"emitting {name} {version}: setuptools could not build the wheel (exit code "
            f"{done.returncode}). Its last words:\n{done.stderr.strip()[-2000:]}"
        )
    return next((project / "dist").glob("*.whl"))


def seal(built: Path, late: Iterable[Content], target: Path) -> tuple[tuple[str, int], ...]:
    """Write ``target``: the files of ``built`` and ``late``, sorted, with RECORD last.

    ``late`` paths are paths in the wheel; a leading DIST-INFO stands for its metadata folder.
    """
    with zipfile.ZipFile(built) as archive:
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        folder = info.removesuffix("/WHEEL")
        contents = [
            Content.of(
                name, _own_platform(archive.read(name)) if name == info else archive.read(name)
            )
            for name in archive.namelist()
            if name != f"{folder}/RECORD"
        ]
    for content in late:
        contents.append(content.moved(content.path.replace("DIST-INFO", folder, 1)))
    contents.sort(key=lambda content: (content.path.startswith(folder), content.path))
    contents.append(_record(f"{folder}/RECORD", contents))
    with zipfile.ZipFile(target, "w") as archive:
        for content in contents:
            _add(archive, content)
    return tuple(sorted((content.path, content.size) for content in contents))


def _own_platform(wheel: bytes) -> bytes:
    """The file WHEEL, for a wheel of one platform, which is installed into platlib."""
    if b"-none-any" in wheel:
        return wheel
    return wheel.replace(b"Root-Is-Purelib: true", b"Root-Is-Purelib: false")


def _add(archive: zipfile.ZipFile, content: Content) -> None:
    entry = zipfile.ZipInfo(content.path, _EPOCH)
    entry.create_system, entry.external_attr = _UNIX, _MODE
    entry.compress_type = zipfile.ZIP_STORED if content.is_packed else zipfile.ZIP_DEFLATED
    entry.file_size = content.size
    with archive.open(entry, "w") as file:
        for piece in content.walk():
            file.write(piece)


def _record(path: str, contents: Iterable[Content]) -> Content:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for content in contents:
        digest = base64.urlsafe_b64encode(content.sha256).rstrip(b"=").decode()
        rows.writerow((content.path, f"sha256={digest}", content.size))
    rows.writerow((path, "", ""))
    return Content.of(path, text.getvalue().encode())


def _packages(name: str, contents: Sequence[Content]) -> list[str]:
    """The folders with modules, by their names in Python."""
    paths = [f"{name}/{content.path}" for content in contents]
    marked = [path.removesuffix("/__init__.py") for path in paths if path.endswith("/__init__.py")]
    return sorted(path.replace("/", ".") for path in marked)


def _project(name: str, version: str, facts: Facts, packages: list[str]) -> str:
    """pyproject.toml; all values are identifiers, versions or fixed text, quoted as JSON."""
    lines = [
        "[build-system]",
        'requires = ["setuptools"]',
        'build-backend = "setuptools.build_meta"',
        "[project]",
        f"name = {json.dumps(name)}",
        f"version = {json.dumps(version)}",
        f"description = {json.dumps(f'{name}, a model packaged by aotpack')}",
        'readme = "README.md"',
        f"classifiers = {json.dumps(facts.classifiers)}",
        f'requires-python = ">={OLDEST_PYTHON}"',
        f"dependencies = {json.dumps(facts.requires)}",
        'license-files = ["LICENSE.aotpack"]',
    ]
    if facts.entry_point:
        lines += ['[project.entry-points."aotpack.models"]', f'{name} = "{name}:load"']
    lines += [
        "[tool.setuptools]",
        f"packages = {json.dumps(packages)}",
        "[tool.setuptools.package-data]",
        f'{name} = ["**/*"]',
    ]
    return "\n".join(lines) + "\n"
