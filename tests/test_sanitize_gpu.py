"""``tools/sanitize_gpu.py`` counts what a check finds; another program stands for the checker."""

import sys
from pathlib import Path

import pytest

from tools import sanitize_gpu

CHECK = """#!/bin/sh
echo "========= COMPUTE-SANITIZER"
for block in 0 1; do echo "========= $2: {words} in block ($block,0,0)
=========     Host Frame: main
========= "; done
exit {status}
"""


@pytest.mark.parametrize(
    ("status", "words", "told"),
    [(0, "0 errors", "== memcheck: clean"), (9, "1 error", "== memcheck: status 9")],
)
def test_what_a_check_finds_is_counted(
    status: int,
    words: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "compute-sanitizer"
    program.write_text(CHECK.format(status=status, words=words))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "product").mkdir()
    monkeypatch.setattr(sanitize_gpu, "save_answers", lambda job: None)  # they need a GPU
    arguments = ["sanitize_gpu", "product", "--checks", "memcheck", "--packages", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert sanitize_gpu.main() == (status != 0)
    output = capsys.readouterr().out
    assert told in output and (f"2 x  memcheck: {words}" in output) == (status != 0)


@pytest.mark.parametrize("name", ["one row", "decode", "lstm", "convolution", "scan"])
def test_cases_are_the_same_each_time(name: str) -> None:
    job = sanitize_gpu.Job(name, "sm_90", Path())
    (module, args), (again, more) = job.made(), job.made()
    first, second = module(*args), again(*more)
    assert first.equal(second) and first.isfinite().all()
