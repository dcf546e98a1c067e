"""Write docs/capabilities.md: the capability rows, their state, and the tests that prove them.

    python tools/capabilities.py          # write the document
    python tools/capabilities.py --check  # list faults of rows, markers and document

Rows are in tests/capabilities/rows.toml. A test proves the rows its marker names,
``@pytest.mark.row("S:M9")``; sources name no rows. Nothing is imported: files are parsed.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ("CORE", "USEFUL", "EDGE", "N/A")
NEEDS_NO_TEST = "N/A"
MOST_SHOWN = 4  # tests of a row
ROW = r"(?:[A-Z]\d+b?|(?:inv|def)\d+)"
NAMED = re.compile(rf"\b[SC]:{ROW}\b")
IN_PARENTHESES = re.compile(r"(?<!\w)\([A-Z]\d{1,2}(?:-[A-Z]?\d+)?\)")
HEAD = """# Capabilities, row by row

Written by `tools/capabilities.py` from `tests/capabilities/rows.toml` and the `row` markers of
tests; a test fails when it is stale. S: scheduler and IR, C: code generation. CORE: inference on
one GPU needs it. USEFUL: inference gains by it. EDGE: rare.
N/A: not for this product. A row is *proven* when a fault planted in its code makes one of its tests
fail (`tools/mutation.py`), *tested* when a test names it, *other design* when a test shows
its effect by other means, *refused* when a test shows the refusal in words, *open* when it is
missing, or a part of it.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A capability: "S:M9", its class, and a title."""

    name: str
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Book:
    """The contents of rows.toml. ``notes`` give rows a state (open, design, refused), and why."""

    sections: tuple[tuple[str, str, tuple[Row, ...]], ...]  # name, title, rows
    notes: dict[str, dict[str, str]]
    proven: frozenset[str] = frozenset()  # rows of which a planted fault is noticed

    @property
    def rows(self) -> dict[str, Row]:
        return {row.name: row for _, _, rows in self.sections for row in rows}


@dataclass(slots=True)
class Found:
    """Row -> the tests that name it, in order of the files."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, row: str, place: str) -> None:
        places = self.names.setdefault(row, [])
        if place not in places:
            places.append(place)

    def of(self, row: Row) -> list[str]:
        return self.names.get(row.name, [])


def read_book(path: Path) -> Book:
    """The rows, as written in the data file."""
    data = tomllib.loads(path.read_text())
    sections = []
    for section in data["section"]:
        prefix = section["name"].split(":")[0]
        parts = (line.split(maxsplit=2) for line in section["rows"])
        rows = tuple(Row(f"{prefix}:{name}", kind, title) for name, kind, title in parts)
        sections.append((section["name"], section["title"], rows))
    notes = {state: data.get(state, {}) for state in ("open", "design", "refused")}
    files = sorted(path.with_name("faults").glob("*.toml"))
    planted = [fault for one in files for fault in tomllib.loads(one.read_text())["fault"]]
    rows_with_faults = frozenset(row for fault in planted for row in fault["rows"])
    return Book(tuple(sections), notes, rows_with_faults)


# --- markers in tests and sources ----------------------------------------------------------------


def tests_by_row(folder: Path) -> Found:
    """The tests whose markers name rows; a marked table counts for the tests that take it."""
    found = Found()
    for path in sorted(folder.rglob("test_*.py")):
        file = path.relative_to(folder).as_posix()
        tree = ast.parse(path.read_text())
        on_gpu = any(_is_marker(n, "gpu") for s in _pytestmarks(tree) for n in ast.walk(s))
        for statement in tree.body:
            for row in _marked(statement):
                for test in _tests_of(statement, tree):
                    suffix = " (gpu)" if on_gpu or _is_gpu_test(test, tree) else ""
                    found.add(row, f"{file}::{test}{suffix}" if test else file + suffix)
    return found


def _pytestmarks(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if _target(node) == "pytestmark"]


def _target(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign):
        return node.target.id if isinstance(node.target, ast.Name) else ""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def _is_marker(node: ast.AST, name: str) -> bool:
    """True for ``pytest.mark.NAME``."""
    return isinstance(node, ast.Attribute) and ast.unparse(node) == f"pytest.mark.{name}"


def _marked(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and _is_marker(node.func, "row"):
            yield from (ast.literal_eval(argument) for argument in node.args)


def _tests_of(statement: ast.stmt, tree: ast.Module) -> list[str]:
    """The test a marker stands on, or those that take the table it stands in; "" is the file."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    table = _target(statement)
    if table == "pytestmark":
        return [""]
    return [test.name for test in _functions(tree) if _takes(test, table)] or [table]


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _takes(test: ast.FunctionDef, table: str) -> bool:
    names = (node for decorator in test.decorator_list for node in ast.walk(decorator))
    return any(isinstance(node, ast.Name) and node.id == table for node in names)


def _is_gpu_test(name: str, tree: ast.Module) -> bool:
    found = [test for test in _functions(tree) if test.name == name]
    return any(_is_marker(node, "gpu") for test in found for node in test.decorator_list)


def named_in_sources(root: Path) -> Iterator[tuple[str, str]]:
    """(module or template, row) wherever a source names a row."""
    for path in sorted([*(root / "aotpack").rglob("*.py"), *(root / "templates").rglob("*.jinja")]):
        text = path.read_text()
        found = NAMED.findall(text)
        if path.suffix == ".py":
            found += [row for remark in remarks(text) for row in IN_PARENTHESES.findall(remark)]
        for row in found:
            yield path.relative_to(root).as_posix(), row


def remarks(text: str) -> Iterator[str]:
    """The docstrings of a module and its comments; lines of one docstring stay together."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


# --- faults --------------------------------------------------------------------------------------


def faults(book: Book, tests: Found) -> list[str]:
    """Rows without a test or a reason, and names of rows that do not exist."""
    rows, notes = book.rows, book.notes
    found = [f"{row.name}: there is no class {row.kind}" for row in rows.values() if _is_odd(row)]
    found += [f"{name} is no row, but a fault names it" for name in book.proven - rows.keys()]
    for name, places in tests.names.items():
        if name not in rows:
            found.append(f"{name} is no row, but {places[0]} names it")
    for state, told in notes.items():
        found += [f"{name} is no row, but is said to be {state}" for name in told - rows.keys()]
    for row in rows.values():
        states = [state for state, told in notes.items() if row.name in told]
        if len(states) > 1:
            found.append(f"{row.name} is said to be {' and '.join(states)}")
        if row.kind != NEEDS_NO_TEST and not tests.of(row) and states != ["open"]:
            found.append(f"{row.name} ({row.title}) has no test, and is not said to be open")
    return found


def _is_odd(row: Row) -> bool:
    return row.kind not in CLASSES


# --- the document --------------------------------------------------------------------------------


def document(book: Book, tests: Found) -> str:
    """The text of docs/capabilities.md."""
    lines = [HEAD, *_counts(book), "", *_open_rows(book)]
    for name, title, rows in book.sections:
        lines += ["", f"## {name} {title}", ""]
        lines += ["| row | capability | class | state | tests |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        for row in rows:
            cells = (
                row.name,
                row.title,
                row.kind,
                _state(row, book, short=False),
                _shown(tests.of(row)),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _state(row: Row, book: Book, *, short: bool) -> str:
    words = {"open": "open", "design": "other design", "refused": "refused"}
    for state, told in book.notes.items():
        if row.name in told:
            return words[state] if short else f"{words[state]}: {told[row.name]}"
    if row.kind == NEEDS_NO_TEST:
        return "not for us"
    return "proven" if row.name in book.proven else "tested"


def _shown(tests: list[str]) -> str:
    more = f" and {len(tests) - MOST_SHOWN} more" if len(tests) > MOST_SHOWN else ""
    return ", ".join(f"`{test}`" for test in tests[:MOST_SHOWN]) + more


def _counts(book: Book) -> list[str]:
    states = ("proven", "tested", "other design", "refused", "open")
    rows = book.rows.values()
    count = Counter((row.kind, _state(row, book, short=True)) for row in rows)
    lines = [f"| class | rows | {' | '.join(states)} |", "| --- " * (len(states) + 2) + "|"]
    for kind in CLASSES[:-1]:
        numbers = [count[kind, state] for state in states]
        lines.append(f"| {kind} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    return lines


def _open_rows(book: Book) -> Iterable[str]:
    told = book.notes["open"]
    listed = [row for row in book.rows.values() if row.name in told]
    yield f"## Open: {len(listed)} rows"
    yield ""
    for kind in CLASSES:
        yield from (
            f"- {r.name} ({kind}) {r.title}: {told[r.name]}" for r in listed if r.kind == kind
        )


def state_of(root: Path) -> tuple[str, list[str]]:
    """The text of the document, and the faults."""
    book, tests = read_book(root / "tests/capabilities/rows.toml"), tests_by_row(root / "tests")
    wrong = faults(book, tests)
    for place, row in named_in_sources(root):
        wrong.append(f"{place} names {row}: the markers of tests alone name rows")
    return document(book, tests), wrong


def main() -> int:
    """0 when all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    text, wrong = state_of(ROOT)
    path = ROOT / "docs/capabilities.md"
    if not parser.parse_args().check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        wrong.append("docs/capabilities.md is stale: run tools/capabilities.py")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
