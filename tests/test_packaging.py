"""What setuptools is told against what is in the tree."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import aotpack
from tests.imports import imports

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


def declared(texts: list[str]) -> set[str]:
    """The names of requirements."""
    return {canonicalize_name(Requirement(text).name) for text in texts}


def undeclared(path: Path, known: set[str]) -> set[str]:
    """Packages that a module imports and that no requirement names."""
    package = ".".join(path.relative_to(ROOT).parent.parts) if path.is_relative_to(ROOT) else ""
    found = {name.split(".")[0] for name, _ in imports(path.read_text(), package)}
    own = {"aotpack", "tests", "tools", ""} | sys.stdlib_module_names
    made_by = {
        name: {canonicalize_name(one) for one in DISTRIBUTIONS.get(name, ())} for name in found
    }
    return {name for name in found - own if not made_by[name] & known}


FOLDERS = (".ci", "aotpack", "docs", "examples", "templates", "tests", "tools")
DISTRIBUTIONS = packages_distributions()
REQUIRED = declared(PROJECT["project"]["dependencies"])
EXTRAS = {
    name: declared(texts) for name, texts in PROJECT["project"]["optional-dependencies"].items()
}
OPTIONAL = {
    "emit/signature.py": "sign",
    "commands/completion.py": "completion",
    "transformers_export.py": "transformers",
}


def test_every_package_that_is_imported_is_declared() -> None:
    found = {}
    for path in sorted((ROOT / "aotpack").rglob("*.py")):
        name = path.relative_to(ROOT / "aotpack").as_posix()
        known = REQUIRED | EXTRAS.get(OPTIONAL.get(name, ""), set())
        if "templates" not in path.parts and (left := undeclared(path, known)):
            found[name] = left
    assert found == {}


def test_every_package_that_the_tests_import_is_declared() -> None:
    known = REQUIRED.union(*EXTRAS.values())
    paths = (ROOT / "tests").rglob("*.py")
    assert [path.name for path in paths if undeclared(path, known)] == []


def test_a_package_that_is_not_declared_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nimport sympy\nfrom cuda.bindings import driver\n")
    assert undeclared(tmp_path / "a.py", REQUIRED - {"sympy"}) == {"sympy"}
    assert undeclared(tmp_path / "a.py", REQUIRED) == set()


def test_the_source_archive_holds_what_a_checkout_has(tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns(".*_cache", "__pycache__", "*.egg-info")
    for path in ROOT.iterdir():  # environments and what was built may stand beside
        if path.name in FOLDERS:
            shutil.copytree(path, tmp_path / "aotpack" / path.name, ignore=left_out, symlinks=True)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path / "aotpack")
    build = "from setuptools import build_meta; print(build_meta.build_sdist('../made'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path / "aotpack", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "made" / done.stdout.splitlines()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in FOLDERS:
        files = [path for path in (tmp_path / "aotpack" / folder).rglob("*") if path.is_file()]
        missing = {path.relative_to(tmp_path / "aotpack").as_posix() for path in files} - names
        assert files and missing == set()
    assert {"CHANGELOG.md", "SECURITY.md", "constraints.txt", "mkdocs.yml", "LICENSE"} <= names


def test_the_runtime_carries_the_licence() -> None:
    assert (ROOT / "aotpack" / "runtime" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_public_names_are_there() -> None:
    assert {name for name in aotpack.__all__ if getattr(aotpack, name) is not None} == {
        "AotpackError",
        "Method",
        "Target",
        "build",
        "compile",
        "load_checkpoint",
        "register_lowering",
        "with_state",
    }


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'package'"):
        _ = aotpack.package  # type: ignore[attr-defined]


def test_public_names_are_listed_before_they_are_imported() -> None:
    code = "import sys, aotpack; print(*dir(aotpack)); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, has_torch = done.stdout.splitlines()
    assert set(aotpack.__all__) <= set(listed.split()) and has_torch == "False"
    with pytest.raises(AttributeError, match="has no attribute 'bild'; did you mean 'build'"):
        aotpack.bild  # noqa: B018
