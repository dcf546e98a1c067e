"""Packages run on Python 3.10: the runtime uses nothing of the standard library that came later."""

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
_HOW = ("--config-file=", "--python-version", "3.10", "--ignore-missing-imports")


def faults_on_3_10(path: Path, cache: Path) -> list[str]:
    """What a module names that Python 3.10 lacks, or how it is written."""
    found, errors, _ = api.run([*_HOW, f"--cache-dir={cache}", str(path)])
    assert not errors
    return [line for line in found.splitlines() if line.endswith(("[attr-defined]", "[syntax]"))]


def test_the_runtime_runs_on_python_3_10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert faults_on_3_10(Path("aotpack/runtime"), tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "from typing import Self\n",
        "from enum import StrEnum\n",
        "import tomllib\nfrom datetime import UTC\n",
        "try:\n    pass\nexcept* ValueError:\n    pass\n",
    ],
)
def test_what_came_later_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "later.py"
    path.write_text(text)
    assert faults_on_3_10(path, tmp_path / "cache")
