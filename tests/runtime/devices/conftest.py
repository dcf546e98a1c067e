"""A fake GPU that issues launches and graphs, and a package of five launches for it."""

from pathlib import Path

import pytest

from tests.runtime.fake_library import FakeGpu
from tests.runtime.packages import DIAMOND, write_demo


@pytest.fixture(params=[False, True], ids=["", "early"])
def gpu(request: pytest.FixtureRequest) -> FakeGpu:
    return FakeGpu(starts_early=request.param)


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    return write_demo(tmp_path / "demo", wrapper=DIAMOND, factor=11)
