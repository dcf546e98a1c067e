"""Docstrings and comments of the package name only files, modules and headings that exist.

A file is named from the root, from ``aotpack/``, from ``templates/`` or from the folder at hand.
docs/benchmarks.md holds summaries: who cites it says which, by a heading in quotation marks.
"""

import re
from pathlib import Path

import pytest

from tools.capabilities import remarks

from .tables import sections

ROOT = Path(__file__).parents[2]
MODULES = sorted(p for p in (ROOT / "aotpack").rglob("*.py") if "templates" not in p.parts)
ELSEWHERE = {"model.py", "wrapper.py", "__init__.py", "__main__.py", "pyproject.toml"}
BENCHMARKS = "docs/benchmarks.md"
_FILE = re.compile(r"(?<![\w./*-])[\w*./-]*\w\.(?:py|md|csv|toml|jinja)(?:\.jinja)?\b(?!\w)")
_MODULE = re.compile(r"(?<![\w.])aotpack(?:\.\w+)+")
_CITED = re.compile(r"(docs/[\w/-]+\.md)`*(?:,\s+\"([^\"]+)\")?")


def lost_files(remark: str, module: Path, root: Path) -> list[str]:
    """Files that a remark names, but that do not exist."""
    bases = (root, root / "aotpack", root / "templates", module.parent)
    named = [name for name in _FILE.findall(remark) if name not in ELSEWHERE]
    return [name for name in named if not any([*base.glob(name)] for base in bases)]


def lost_modules(remark: str, root: Path) -> list[str]:
    """Dotted names whose module does not exist, or does not mention what is named in it."""
    return [name for name in _MODULE.findall(remark) if not _is_known(name.split("."), root)]


def _is_known(parts: list[str], root: Path) -> bool:
    path = root.joinpath(*parts)
    if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
        return True
    holder = path.parent
    files = (holder.with_suffix(".py"), holder / "__init__.py")
    texts = [file.read_text() for file in files if file.is_file()]
    return any(re.search(rf"\b{parts[-1]}\b", text) for text in texts)


def lost_headings(remark: str, root: Path) -> list[str]:
    """Headings that a page does not have, and figures said to be somewhere in the benchmarks."""
    lost = []
    for page, heading in _CITED.findall(remark):
        known = sections((root / page).read_text()) if (root / page).is_file() else {}
        if heading not in known if heading else page == BENCHMARKS:
            lost.append(f"{page}, {heading or 'no heading'}")
    return lost


def faults(module: Path, root: Path) -> list[str]:
    """What the remarks of a module name in vain."""
    return [
        fault
        for remark in remarks(module.read_text())
        for fault in (
            *lost_files(remark, module, root),
            *lost_modules(remark, root),
            *lost_headings(remark, root),
        )
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_remarks_name_exists(module: Path) -> None:
    assert faults(module, ROOT) == []


@pytest.mark.parametrize(
    ("remark", "fault"),
    [
        ('"""See ``near.py`` and ``b/near.py``; sizes in a/near.py."""', "b/near.py"),
        ('"""Tiles: far.py, a/*.py and a/*.c.jinja."""', "a/*.c.jinja"),
        ("x = 1  # as in gone.md", "gone.md"),
        ('"""Like aotpack.a.near.known, unlike aotpack.a.near.other."""', "aotpack.a.near.other"),
        ('"""Like aotpack.a.near, unlike aotpack.a.far."""', "aotpack.a.far"),
        ('"""Fast (docs/benchmarks.md)."""', "docs/benchmarks.md, no heading"),
        ('def f():\n    """Fast (docs/benchmarks.md,\n    "Tail")."""', "docs/benchmarks.md, Tail"),
        ('"""Fast (``docs/benchmarks.md``, "Head"), see docs/lost.md."""', "docs/lost.md"),
    ],
)
def test_what_is_named_in_vain_is_found(tmp_path: Path, remark: str, fault: str) -> None:
    for name, text in {
        "docs/benchmarks.md": "# Page\n\n## Head\n",
        "far.py": "",
        "aotpack/a/__init__.py": "",
        "aotpack/a/near.py": "known = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    module = tmp_path / "aotpack" / "a" / "module.py"
    module.write_text(f"{remark}\n")
    assert faults(module, tmp_path) == [fault]
