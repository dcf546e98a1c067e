"""Texts that a person has read once: compared with files of ``tests/golden``, rewritten by a flag.

A test ``test_x`` of ``tests/STAGE`` that takes the fixture ``golden`` owns ``golden/STAGE/x.*``.
"""

import ast
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

FIXTURE, FLAG = "golden", "--update-golden"


def golden_file(tests: Path, file: Path, test: str, kind: str) -> Path:
    """Where the text of a test in ``file`` lies; ``kind`` is its extension."""
    stage = file.relative_to(tests).parts[0]
    return tests / "golden" / stage / f"{test.removeprefix('test_')}.{kind}"


def check_golden(path: Path, text: str, *, is_update: bool) -> None:
    """Fail unless ``path`` holds the text, or write it there."""
    if is_update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not path.exists():
        pytest.fail(f"{path} is missing: run pytest {FLAG}, and read the file", pytrace=False)
    kept = path.read_text()
    if text != kept:
        lines = unified_diff(kept.splitlines(), text.splitlines(), str(path), "found", lineterm="")
        shown = "\n".join(lines)
        pytest.fail(f"{shown}\nIf this is meant: run pytest {FLAG}", pytrace=False)


def golden_tests(tests: Path) -> Iterator[tuple[str, str]]:
    """(stage, name) of every test that compares with a golden text."""
    for file in sorted(tests.rglob("test_*.py")):
        functions = (n for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef))
        for function in functions:
            takes = FIXTURE in {argument.arg for argument in function.args.args}
            if takes and function.name.startswith("test_"):
                yield file.relative_to(tests).parts[0], function.name.removeprefix("test_")


def golden_faults(tests: Path) -> list[str]:
    """Files that no test compares with, and tests whose file is missing."""
    owned = set(golden_tests(tests))
    files = [path for path in sorted((tests / "golden").rglob("*")) if path.is_file()]
    found = {(path.parent.name, path.stem) for path in files}
    orphans = [
        f"{path.relative_to(tests)} has no test: delete it"
        for path in files
        if (path.parent.name, path.stem) not in owned
    ]
    missing = [
        f"golden/{stage}/{name}.* is missing: run pytest {FLAG}"
        for stage, name in sorted(owned - found)
    ]
    return orphans + missing
