"""Fixtures of the IR tests: golden texts, and the results of all generated kernels."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.ops.reference import Array
from tests.ir import triton_forms

GOLDEN = Path(__file__).parents[1] / "golden" / "ir"
RESULTS = "out.npz"
UPDATE = bool(os.environ.get("AOTPACK_UPDATE_GOLDEN"))


@pytest.fixture
def golden_ir(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Compare a text with ``tests/golden/ir/<test>.ir``; AOTPACK_UPDATE_GOLDEN=1 rewrites it."""

    def check(text: str) -> None:
        path = GOLDEN / f"{request.node.originalname}.ir"
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run with AOTPACK_UPDATE_GOLDEN=1"
        assert text == path.read_text()

    yield check


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
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(Path(triton_forms.__file__)), str(folder / RESULTS), device]
    subprocess.run(command, check=True, env=environment, capture_output=True, text=True)


def _results(folder: Path) -> Mapping[str, Array]:
    with np.load(folder / RESULTS) as results:
        return dict(results)
