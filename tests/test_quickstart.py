"""tools/quickstart with a python3 that only writes down what it is asked for."""

import os
import subprocess
from pathlib import Path
from shutil import copy

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "quickstart"
PYTHON = """\
#!/usr/bin/env bash
echo "$@" >>asked.txt
[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/aotpack"; }
case $1 in *broken.py) exit 1 ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with wheels of earlier runs."""
    for folder in ("tools", "bin", "quickstart/dist"):
        (tmp_path / folder).mkdir(parents=True)
    copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "bin" / "python3").write_text(PYTHON)
    (tmp_path / "bin" / "python3").chmod(0o755)
    for age, name in enumerate(("newest", "a", "z")):
        wheel = tmp_path / f"quickstart/dist/{name}-1-py3-none-any.whl"
        wheel.touch()
        os.utime(wheel, (9 - age, 9 - age))
    for file in ("constraints.txt", "pyproject.toml", "model.py", "broken.py"):
        (tmp_path / file).write_text(file)
    return tmp_path


def run(checkout: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """What the script said, and what it asked python3 and the environments for."""
    asked = checkout / "asked.txt"
    asked.write_text("")
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [checkout / "tools" / "quickstart", *words],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    return done, asked.read_text()


@pytest.mark.parametrize("words", [["lost.py"], ["lost.py:net"], ["."], [""], ["model.py", "more"]])
def test_what_is_no_model_file_is_refused_before_any_work(checkout: Path, words: list[str]) -> None:
    done, asked = run(checkout, *words)
    assert done.returncode == 2 and "accepted is at most one model file" in done.stderr
    assert not asked and list((checkout / "quickstart").rglob("*.whl"))


def test_help_is_the_usage(checkout: Path) -> None:
    done, asked = run(checkout, "--help")
    assert done.returncode == 0 and not asked
    assert done.stdout.startswith("usage: tools/quickstart [MODEL.py[:ATTR]]\n")


def test_a_model_that_fails_costs_no_earlier_wheel(checkout: Path) -> None:
    done, asked = run(checkout, "broken.py")
    assert done.returncode == 1 and "inspect" not in asked
    assert list((checkout / "quickstart").rglob("*.whl"))


@pytest.mark.parametrize("model", [[], ["model.py"], ["model.py:net"]])
def test_the_newest_wheel_is_run(checkout: Path, model: list[str]) -> None:
    done, asked = run(checkout, *model)
    assert done.returncode == 0, done.stderr
    named = str(checkout / model[0]) if model else "examples/bert_base.py"
    assert f"\n{named} -o quickstart/dist --target sm_80,sm_90,sm_120,cpu\n" in asked
    assert asked.endswith("-m newest verify\n-m newest bench\n")


def test_the_build_environment_follows_the_checkout(checkout: Path) -> None:
    installed = "-m pip install --quiet --constraint constraints.txt --editable .[test]"
    assert [installed in run(checkout)[1] for _ in range(2)] == [True, False]
    (checkout / "constraints.txt").write_text("newer")
    assert [installed in run(checkout)[1] for _ in range(2)] == [True, False]
