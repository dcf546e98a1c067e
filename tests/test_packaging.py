"""What setuptools is told against what is in the tree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import aotpack

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_of(root: Path) -> set[str]:
    """Every folder of the tree with modules in it, by its package name."""
    inside = {path.parent for path in (root / "aotpack").rglob("*.py")}
    names = {".".join(folder.relative_to(root).parts) for folder in inside}
    return names | {"aotpack.templates"}


def test_every_package_is_listed() -> None:
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages_of(ROOT)


def test_a_new_folder_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "aotpack" / "new").mkdir(parents=True)
    (tmp_path / "aotpack" / "new" / "__init__.py").touch()
    assert "aotpack.new" in packages_of(tmp_path)


def test_every_package_has_a_docstring_file() -> None:
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        folder = ROOT / ("templates" if name == "aotpack.templates" else name.replace(".", "/"))
        assert (folder / "__init__.py").read_text().startswith('"""'), name


def test_templates_are_data_of_their_package() -> None:
    found = [path for path in (ROOT / "templates").iterdir() if path.name != "__pycache__"]
    assert not [path for path in found if path.is_dir()]
    assert {path.suffix for path in found} <= {".py", ".jinja"}


def test_every_dependency_is_pinned() -> None:
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    pinned = {name.lower().replace("_", "-") for name in pins}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(text for some in extras.values() for text in some),
    ]
    names = {Requirement(text).name.lower() for text in wanted} - {"aotpack"}
    assert names <= pinned


def test_the_runtime_carries_the_licence() -> None:
    assert (ROOT / "aotpack" / "runtime" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_public_names_are_there() -> None:
    assert {name for name in aotpack.__all__ if getattr(aotpack, name) is not None} == {
        "AotpackError",
        "Target",
        "build",
        "compile",
        "register_lowering",
    }


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'package'"):
        _ = aotpack.package  # type: ignore[attr-defined]


def test_public_names_are_listed_before_they_are_imported() -> None:
    code = "import sys, aotpack; print(*dir(aotpack)); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, has_torch = done.stdout.splitlines()
    assert set(aotpack.__all__) <= set(listed.split()) and has_torch == "False"
    with pytest.raises(AttributeError, match="has no attribute 'bild'"):
        aotpack.bild  # noqa: B018
