"""Fixtures: the demo package in a folder, a fake device, and the model on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aotpack.runtime import Model, load

from .fake_device import FakeDevice
from .packages import write_demo


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_demo(tmp_path / "demo")


@pytest.fixture
def model(package: Path, device: FakeDevice) -> Iterator[Model]:
    with load(package, device) as loaded:
        yield loaded
