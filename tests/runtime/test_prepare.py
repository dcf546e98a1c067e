"""From a plan to steps: names, integers and memory of launches."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import Model, PackageError, load

from .fake_device import FakeDevice
from .packages import WRAPPER, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.row("C:inv26")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Launch("add"', 'Launch("lost"', "kernel lost has no binary"),
        ('"total", b*s)),\n', '"total")),\n', "add takes 4 arguments, wrapper.py passes 3"),
        ('"scale", "output0"', '"lost", "output0"', "scale uses unknown 'lost'"),
        ('("x", "y", "total", b*s)', '("x", "y", "total", 2**31)', "takes int32.*2147483648"),
        ('Buffer("total"', 'Buffer("x"', "two tensors are called 'x'"),
    ],
)
def test_wrong_plans(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write_demo(tmp_path / "demo", wrapper=WRAPPER.replace(old, new))
    with load(folder, FakeDevice()) as model, pytest.raises(PackageError, match=message):
        model(X, X)


@pytest.mark.row("S:A14", "S:H3", "C:inv27")
def test_size_zero_launches_nothing(model: Model, device: FakeDevice) -> None:
    empty = np.ones((2, 0), np.float32)
    assert model(empty, empty).shape == (2, 0)
    assert device.launches == []
