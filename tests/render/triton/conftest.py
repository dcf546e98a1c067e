"""The results of all operators and reductions in Triton."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.ops.reference import Array
from tests.render.triton import forms

RESULTS = "out.npz"


@pytest.fixture(scope="session")
def interpreted(once: Callable[[str, Callable[[Path], object]], Path]) -> Mapping[str, Array]:
    """All kernels run once by Triton's interpreter."""
    return _results(once("interpreted-forms", lambda folder: _run_kernels(folder, "cpu")))


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Array]:
    """All kernels run once on the GPU."""
    folder = tmp_path_factory.mktemp("forms")
    _run_kernels(folder, "cuda")
    return _results(folder)


def _run_kernels(folder: Path, device: str) -> None:
    """In a process of its own: whether Triton interprets is decided when it is imported."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(Path(forms.__file__)), str(folder / RESULTS), device]
    subprocess.run(command, check=True, env=environment, capture_output=True, text=True)


def _results(folder: Path) -> Mapping[str, Array]:
    with np.load(folder / RESULTS) as results:
        return dict(results)
