"""docs/capabilities.md is true: each row has a test or a reason, and only rows are named."""

from pathlib import Path

import pytest

from tools.capabilities import ROOT, state_of

ROWS = """
[[section]]
name = "S:B"
title = "Loops"
rows = ["B1 CORE loops", "B2 EDGE scatter", "B3 USEFUL sums", "B4 N/A training"]

[open]
"S:B2" = "no operation writes to computed addresses"
"""
TESTS = """
import pytest

CASES = [1, pytest.param(2, marks=pytest.mark.row("S:B3"))]

@pytest.mark.row("S:B1")
@pytest.mark.gpu
def test_loops():
    pass

@pytest.mark.parametrize("case", CASES)
def test_sums(case):
    pass
"""


FAULTS = '[[fault]]\nrows = ["S:B3"]\n'


def tree(
    root: Path,
    rows: str = ROWS,
    tests: str = TESTS,
    source: str = "x = 1",
    planted: str = FAULTS,
) -> Path:
    """A repository of four files."""
    rows_and_faults = (
        ("tests/capabilities/rows.toml", rows),
        ("tests/capabilities/faults/scheduler_b.toml", planted),
    )
    sources = ("tests/ir/test_x.py", tests), ("aotpack/ir/program.py", source)
    for name, text in (*rows_and_faults, *sources):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_every_row_has_a_test_or_a_reason() -> None:
    assert state_of(ROOT)[1] == []


def test_the_document_is_what_the_tool_writes() -> None:
    shown = (ROOT / "docs/capabilities.md").read_text()
    assert shown == state_of(ROOT)[0], "run python tools/capabilities.py"


def test_a_row_is_shown_with_its_tests(tmp_path: Path) -> None:
    text, wrong = state_of(tree(tmp_path))
    assert wrong == []
    for line in (
        "| S:B1 | loops | CORE | tested | `ir/test_x.py::test_loops (gpu)` |",
        "| S:B3 | sums | USEFUL | proven | `ir/test_x.py::test_sums` |",
        "| S:B4 | training | N/A | not for us |  |",
        "- S:B2 (EDGE) scatter: no operation writes to computed addresses",
        "| CORE | 1 | 0 | 1 | 0 | 0 | 0 |",
        "## Open: 1 rows",
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"tests": "import pytest"}, "S:B1 (loops) has no test, and is not said to be open"),
        ({"rows": ROWS.replace("[open]", "[refused]")}, "S:B2 (scatter) has no test"),
        ({"tests": TESTS.replace("B1", "B9")}, "S:B9 is no row, but ir/test_x.py::test_loops"),
        ({"source": "# (S:B1)"}, "aotpack/ir/program.py names S:B1: the markers of tests alone"),
        ({"source": '"""A dimension (F18)."""'}, "aotpack/ir/program.py names (F18): the markers"),
        ({"source": "x = 1  # rows (M9-M12)"}, "aotpack/ir/program.py names (M9-M12): the markers"),
        ({"rows": ROWS.replace('"S:B2"', '"S:B8"')}, "S:B8 is no row, but is said to be open"),
        ({"rows": ROWS + '\n[design]\n"S:B2" = "x"'}, "S:B2 is said to be open and design"),
        ({"planted": FAULTS.replace("B3", "B8")}, "S:B8 is no row, but a fault names it"),
        ({"rows": ROWS.replace("EDGE", "RARE")}, "S:B2: there is no class RARE"),
    ],
)
def test_refuses(tmp_path: Path, changes: dict[str, str], fault: str) -> None:
    wrong = state_of(tree(tmp_path, **changes))[1]
    assert any(line.startswith(fault) for line in wrong), wrong


def test_a_type_in_code_is_no_row(tmp_path: Path) -> None:
    assert state_of(tree(tmp_path, source="x = (F32)  # dtypes(F32), size(A1)"))[1] == []
