"""Planted faults are in the sources, name tests of their rows, and the tests notice them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools import capabilities
from tools.capabilities import ROOT
from tools.mutation import TEMPLATE, Fault, is_noticed, read_faults

FAULTS = read_faults()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool in a process of its own, as it parts before the package is imported."""
    command = [sys.executable, "-m", "tools.mutation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_fault_is_of_a_row_and_of_its_test() -> None:
    rows = capabilities.read_book(ROOT / "tests/capabilities/rows.toml").rows
    found = capabilities.tests_by_row(ROOT / "tests")
    for fault in FAULTS:
        assert fault.rows, fault
        for row in fault.rows:
            assert row in rows, row
            assert fault.test.split("[")[0] in found.of(rows[row]), fault
        source = fault.source()
        assert fault.path.suffix == TEMPLATE or compile(source, fault.file, "exec")


def test_a_fault_may_be_in_a_template() -> None:
    fault = Fault(
        rows=("C:H1",),
        file="templates/loop_function.py.jinja",
        old="x_mask = x < {{ c.x.extent }}",
        new="x_mask = x > {{ c.x.extent }}",
        test="render/test_goldens.py::test_gelu",
    )
    code = f"from tools.mutation import Fault, is_noticed; print(is_noticed({fault!r}))"
    command = [sys.executable, "-c", code]  # templates are read once in a process
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_test_that_always_fails_notices_nothing(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_fails() -> None:\n    raise AssertionError\n")
    assert not is_noticed(replace(FAULTS[0], test=str(failing)))


def test_a_test_that_is_not_there_notices_nothing() -> None:
    assert not is_noticed(replace(FAULTS[0], test="ir/test_program.py::test_gone"))


def test_no_faults_are_no_success() -> None:
    assert run("--row", "S:none").returncode == 1


def test_a_fault_whose_line_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="has 0 of 'not there'"):
        replace(FAULTS[0], old="not there").source()
