"""The example of docs/ir.md prints as the page says. A line that ends in " ..." is cut there."""

import re
from pathlib import Path

import pytest

from aotpack.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ir.md"
CUT = " ..."


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def different(shown: str, printed: str) -> list[str]:
    """Lines of the page that are not what is printed."""
    pairs = zip(shown.splitlines(), printed.splitlines(), strict=True)
    return [
        line
        for line, real in pairs
        if not (real.startswith(line.removesuffix(CUT)) if line.endswith(CUT) else line == real)
    ]


@pytest.mark.parametrize(("stage", "block"), [("lowered", 1), ("scheduled", 2)])
def test_the_example_prints_as_shown(
    stage: str, block: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.py"
    model.write_text(blocks("python")[0])
    assert main(["show", str(model), "--stage", stage]) == 0
    assert different(blocks("text")[block], capsys.readouterr().out.rstrip() + "\n") == []


def test_another_line_is_found() -> None:
    assert different("a\nb ...\nc", "a\nb and more\nd") == ["c"]


def test_another_number_of_lines_is_found() -> None:
    with pytest.raises(ValueError, match="zip"):
        different("a", "a\nb")


def unknown_checks(text: str, folder: Path) -> set[str]:
    """The invariants that a page names, but that no function of the folder checks."""
    defined = "".join(path.read_text() for path in folder.glob("*.py"))
    named = set(re.findall(r"`(check_\w+)`", text))
    return {name for name in named if f"def {name}(" not in defined}


def test_the_invariants_are_those_of_the_code() -> None:
    assert unknown_checks(PAGE.read_text(), ROOT / "aotpack" / "ir" / "verify") == set()


def test_an_invariant_that_is_not_checked_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def check_a(): ...\n")
    assert unknown_checks("`check_a`, `check_b`", tmp_path) == {"check_b"}
