"""Each decision has its context, what was decided, and what was rejected or what it costs."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
LONGEST = 400  # words: a page


def page_faults(name: str, text: str) -> list[str]:
    """What a page lacks."""
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    faults = [f"no {part}" for part in ("Context", "Decision") if part not in parts]
    if not {"Rejected", "Cost"} & {*parts}:
        faults.append("nothing was rejected and nothing costs")
    if not re.match(rf"# {name[:3]}\. \S", text):
        faults.append("title without its number")
    if len(text.split()) > LONGEST:
        faults.append("more than a page")
    return faults


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_decision_says_what_and_why(path: Path) -> None:
    assert page_faults(path.name, path.read_text()) == []


def test_numbers_are_in_order_and_listed() -> None:
    assert [int(path.name[:3]) for path in PAGES] == [*range(1, len(PAGES) + 1)]
    assert re.findall(r"\]\((\d{3}-.+\.md)\)", (FOLDER / "README.md").read_text()) == [
        path.name for path in PAGES
    ]


def test_a_page_without_reasons_is_found() -> None:
    text = "# 002. Loops\n\n## Decision\n\n" + "word " * LONGEST
    assert page_faults("001-loops.md", text) == [
        "no Context",
        "nothing was rejected and nothing costs",
        "title without its number",
        "more than a page",
    ]
