"""The docstring of a folder lists its modules in reading order, or the folder is small."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(
    path.parent
    for path in (ROOT / "aotpack").glob("*/**/__init__.py")
    if "templates" not in path.parts
)
ORDER = re.compile(r"\bin reading order:", re.IGNORECASE)
NAME = re.compile(r"``([a-z]\w*)``")
MOST_UNLISTED = 8


def list_faults(folder: Path) -> list[str]:
    """Modules that the list of a folder lacks, and names that the folder does not have."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    paths = {path.stem: path for path in folder.glob("*.py") if not path.stem.startswith("__")}
    found = ORDER.search(text)
    if found is None and len(paths) <= MOST_UNLISTED:
        return []
    missing = paths.keys() - set(NAME.findall(text))
    inner = {path.parent.name for path in folder.glob("*/__init__.py")}
    known = "\n".join(path.read_text() for path in paths.values())
    listed = set(NAME.findall(text[found.end() :] if found else "")) - paths.keys() - inner
    gone = {name for name in listed if not re.search(rf"\bdef {name}\b", known)}
    return [f"{n} is not listed" for n in sorted(missing)] + [f"{n} is gone" for n in sorted(gone)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_list_names_every_module(folder: Path) -> None:
    assert list_faults(folder) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("Loops.", []),
        ("Loops. In reading order: ``m0`` (first) to\n``m1``, ``m2``, and ``inner``.", []),
        ("Loops of m2. In reading order: ``m0`` and ``m1``.", ["m2 is not listed"]),
        ("In reading order: ``m0``, ``m1`` (``run``), ``m2``.", []),
        ("In reading order: ``m0``, ``m1``, ``m2``, ``lost``.", ["lost is gone"]),
    ],
)
def test_a_list_that_is_not_the_folder_is_found(
    tmp_path: Path, text: str, faults: list[str]
) -> None:
    make_folder(tmp_path, text, 3)
    assert list_faults(tmp_path) == faults


@pytest.mark.parametrize(
    ("modules", "faults"), [(8, []), (9, [f"m{n} is not listed" for n in range(9)])]
)
def test_a_large_folder_without_a_list_is_found(
    tmp_path: Path, modules: int, faults: list[str]
) -> None:
    make_folder(tmp_path, "Loops.", modules)
    assert list_faults(tmp_path) == faults


def make_folder(folder: Path, text: str, modules: int) -> None:
    """A folder of modules and a folder in it."""
    (folder / "__init__.py").write_text(f'"""{text}"""\n')
    (folder / "inner").mkdir()
    (folder / "inner" / "__init__.py").touch()
    for number in range(modules):
        (folder / f"m{number}.py").write_text("def run(): ...\n")
