"""No import circle: between files, nor between the files and folders of any folder."""

from collections.abc import Container, Mapping
from pathlib import Path

import pytest

from tests.imports import imports

ROOT = Path(__file__).parents[1]
MOST_MODULES = 20

Graph = Mapping[str, set[str]]


def modules_in(root: Path) -> dict[str, Path]:
    """The modules of ``root/aotpack`` by their dotted names; a folder stands for its __init__."""
    found = {}
    for path in sorted((root / "aotpack").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "templates" not in parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, known: Container[str]) -> set[str]:
    """The known modules that a module imports, wherever in its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    pairs = imports(path.read_text(), package)
    found = {whole if (whole := ".".join(pair)) in known else pair[0] for pair in pairs}
    return {one for one in found if one in known and one != name}


def import_graph(root: Path) -> Graph:
    """Module -> the modules it imports."""
    modules = modules_in(root)
    return {name: imports_of(name, path, modules) for name, path in modules.items()}


def within(graph: Graph, folder: str) -> Graph:
    """The graph between a folder's files and sub-folders, each of which is one."""

    def entry(name: str) -> str:
        inside = name.removeprefix(folder).removeprefix(".")
        return f"{folder}.{inside.partition('.')[0] or '__init__'}"

    entries: dict[str, set[str]] = {}
    for name, imported in graph.items():
        if f"{name}.".startswith(f"{folder}."):
            here = {entry(one) for one in imported if f"{one}.".startswith(f"{folder}.")}
            entries.setdefault(entry(name), set()).update(here - {entry(name)})
    return entries


def circle_in(graph: Graph) -> list[str]:
    """The names along one circle; none if there is none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for one in sorted(graph.get(name, ())):
            if found := visit(one, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


FOLDERS = sorted({name.rpartition(".")[0] for name in modules_in(ROOT)} - {""})


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(ROOT)


def test_files_import_each_other_without_a_circle(graph: Graph) -> None:
    assert circle_in(graph) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_entries_of_a_folder_import_each_other_without_a_circle(
    graph: Graph, folder: str
) -> None:
    assert circle_in(within(graph, folder)) == []


@pytest.mark.parametrize(
    ("files", "folder", "circle"),
    [
        (
            {"a.py": "from aotpack import b", "b.py": "import aotpack.a"},
            "aotpack",
            ["aotpack.a", "aotpack.b", "aotpack.a"],
        ),
        (
            {
                "x/a.py": "def f():\n    from ..y import b",
                "y/b.py": "",
                "y/c.py": "from ..x import a",
            },
            "aotpack",
            ["aotpack.x", "aotpack.y", "aotpack.x"],
        ),
    ],
)
def test_a_circle_is_found(
    tmp_path: Path, files: dict[str, str], folder: str, circle: list[str]
) -> None:
    for name, text in files.items():
        path = tmp_path / "aotpack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert circle_in(within(import_graph(tmp_path), folder)) == circle


def crowded(root: Path) -> dict[str, int]:
    """Folders with more modules than one takes in at a glance, and how many they have."""
    folders = {path.parent for path in (root / "aotpack").rglob("*.py")}
    counts = {folder: len([*folder.glob("*.py")]) for folder in folders}
    return {folder.name: n for folder, n in counts.items() if n > MOST_MODULES}


def test_a_folder_is_read_at_a_glance() -> None:
    assert crowded(ROOT) == {}


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "aotpack").mkdir()
    for number in range(MOST_MODULES + 1):
        (tmp_path / "aotpack" / f"m{number}.py").touch()
    assert crowded(tmp_path) == {"aotpack": MOST_MODULES + 1}
