"""A loaded model makes its device current for each call, and leaves it as it was."""

import numpy as np
import pytest

from aotpack.runtime import ArgumentError, DeviceError, load
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import write_demo

X = np.ones((2, 3), np.float32)


class Counting(FakeDevice):
    """A device that is never current by itself; ``depth`` tells how often it was entered."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.depth = self.entered = 0

    def enter(self) -> bool:
        self.depth += 1
        self.entered += 1
        return True

    def leave(self) -> None:
        self.depth -= 1

    def alloc(self, size: int) -> int:
        assert self.depth > 0, "memory is taken where the device is not current"
        return super().alloc(size)


@pytest.mark.row("S:inv42", "S:P9")
def test_devices_are_entered_and_left_in_pairs(tmp_path: object) -> None:
    """Calls that succeed, are refused or fail; two models on two devices in turn."""
    folder = write_demo(tmp_path / "demo")  # type: ignore[operator]
    first, second = Counting(), Counting(capacity=2200)
    with load(folder, first) as one, load(folder, second) as other:
        assert (first.depth, second.depth) == (0, 0)
        before = first.entered
        for model in (one, other, one):
            np.testing.assert_array_equal(model(X, X), X * 4)
            assert (first.depth, second.depth) == (0, 0)
        assert first.entered >= before + 2
        with pytest.raises(ArgumentError):
            one(X.astype(np.float64), X)
        with pytest.raises(DeviceError, match="no memory left"):
            other(np.ones((8, 32), np.float32), np.ones((8, 32), np.float32))
        assert (first.depth, second.depth) == (0, 0)
    assert (first.depth, second.depth) == (0, 0)
