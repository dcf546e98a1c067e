"""Runtime law: the folder alone imports with the builder's libraries blocked."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aotpack.runtime

BLOCKED = ("torch", "triton", "jinja2", "sympy", "aotpack", "cuda", "safetensors", "setuptools")
PROGRAM = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
import copied_runtime as runtime
names = "Body Branch Buffer Call Counters Launch Loop Part Plan Repeat SizeRead first unrolled"
assert names == " ".join(runtime.EXPORTED)
foreign = [n for n in sys.modules if sys.modules[n] and n.split(".")[0] in {BLOCKED!r}]
assert not foreign, foreign
"""


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _copy(folder: Path) -> Path:
    source = Path(aotpack.runtime.__file__).parent
    return Path(shutil.copytree(source, folder / "copied_runtime"))


@pytest.mark.row("C:inv30")
def test_the_folder_imports_alone(tmp_path: Path) -> None:
    _copy(tmp_path)
    done = _run(tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_import_of_the_builder_would_be_found(tmp_path: Path) -> None:
    plan = _copy(tmp_path) / "plan.py"
    plan.write_text(plan.read_text().replace("from typing", "import torch\nfrom typing"))
    assert "import of torch halted" in _run(tmp_path).stderr
