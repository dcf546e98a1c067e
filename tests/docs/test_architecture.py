"""docs/architecture.md names every folder, and only files that exist; its lines are short.

Generated pages (docs/capabilities.md, docs/op_coverage.md) are as wide as their tables.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "docs/architecture.md"
MOST_WORDS = 900
WIDEST = 120
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "docs" / "decisions").glob("*.md"),
        *(ROOT / "docs" / "measurements").glob("*.md"),
        *(ROOT / "docs" / name for name in ("architecture.md", "benchmarks.md", "glossary.md")),
        *(ROOT / "docs" / name for name in ("ir.md", "package_format.md", "runtime.md")),
    )
)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w./-]+(/|\.(py|md|jinja|toml|csv|svg|c))")
_IN_A_WHEEL = re.compile(r"(wrapper|__init__|__main__)\.py|_runtime/.*|kernels/.*")
_LINK = re.compile(r"\]\(([^)\s#]+)")


def folders_of(root: Path) -> set[str]:
    """The folders of ``root/aotpack`` with modules in them, relative to it."""
    package = root / "aotpack"
    found = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py")}
    return {f"{name}/" for name in found if name != "." and "__pycache__" not in name}


def missing_folders(text: str, root: Path) -> set[str]:
    """Folders of the package that no bullet of the text begins with."""
    named = set(re.findall(r"^ *- `([\w/]+/)`:", text, re.MULTILINE))
    return folders_of(root) - named


def broken_paths(page: Path, text: str, root: Path) -> list[str]:
    """Files and folders of the project that a page names, but that do not exist."""
    named = [word for word in _CODE.findall(text) if _PATH.fullmatch(word)]
    linked = [word for word in _LINK.findall(text) if "://" not in word]
    bases = (root, root / "aotpack")
    named = [word for word in named if not _IN_A_WHEEL.fullmatch(word)]
    lost = [word for word in named if not any((base / word).exists() for base in bases)]
    return lost + [word for word in linked if not (page.parent / word).exists()]


def wide_lines(text: str) -> list[int]:
    """The numbers of lines that are too wide; tables and lines with a URL may be."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > WIDEST and not line.lstrip().startswith("|") and "://" not in line
    ]


def test_every_folder_has_a_bullet() -> None:
    assert missing_folders((ROOT / PAGE).read_text(), ROOT) == set()


def test_a_folder_without_a_bullet_is_found(tmp_path: Path) -> None:
    for folder in ("ir", "ir/ops", "render"):
        (tmp_path / "aotpack" / folder).mkdir(parents=True)
        (tmp_path / "aotpack" / folder / "__init__.py").touch()
    text = "- `ir/`: the IR, see `render/`\n"
    assert missing_folders(text, tmp_path) == {"ir/ops/", "render/"}


def unnamed_modules(text: str, root: Path) -> set[str]:
    """Modules at the top that the text does not name."""
    modules = {path.name for path in (root / "aotpack").glob("*.py")}
    return modules - {"__init__.py", "__main__.py"} - set(_CODE.findall(text))


def test_every_module_at_the_top_is_named() -> None:
    assert unnamed_modules((ROOT / PAGE).read_text(), ROOT) == set()


def test_a_module_without_a_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "aotpack").mkdir()
    for name in ("__init__", "stages", "linker"):
        (tmp_path / "aotpack" / f"{name}.py").touch()
    assert unnamed_modules("`stages.py` and linker.py", tmp_path) == {"linker.py"}


def test_the_map_fits_in_one_reading() -> None:
    assert len((ROOT / PAGE).read_text().split()) <= MOST_WORDS


def test_the_twelve_questions_are_answered() -> None:
    rows = re.findall(r"^\| (\d+)\. .*\| .*`.*\|$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert rows == [str(number) for number in range(1, 13)]


@pytest.mark.parametrize("name", PAGES)
def test_files_that_a_page_names_exist(name: str) -> None:
    page = ROOT / name
    assert broken_paths(page, page.read_text(), ROOT) == []


@pytest.mark.parametrize("name", PAGES)
def test_lines_are_not_wide(name: str) -> None:
    assert wide_lines((ROOT / name).read_text()) == []


def test_a_lost_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "aotpack" / "ir").mkdir(parents=True)
    (tmp_path / "README.md").touch()
    text = "`ir/`, `README.md`, `wrapper.py`, `gone.py`, `a / b + c`, [x](README.md), [y](lost.md)"
    assert broken_paths(tmp_path / "page.md", text, tmp_path) == ["gone.py", "lost.md"]


def test_a_wide_line_is_found() -> None:
    wide = "x" * (WIDEST + 1)
    assert wide_lines(f"short\n{wide}\n| {wide} |\nhttps://{wide}\n") == [2]
