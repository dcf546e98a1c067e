"""Watched calls: the launch that fails and the one that writes a NaN are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.runtime import AotpackError, DeviceError, Model, load
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import DIAMOND, WRAPPER, write_demo

SOURCES = WRAPPER.replace(
    "b*s)),\n            Launch", 'b*s), "demo.py:3: x + y"),\n            Launch'
)
LINES = SOURCES.replace('"output0", b*s)', '"output0", b*s), "demo.py:4: t * scale"')
X = np.ones((2, 3), np.float32)


class Failing(FakeDevice):
    """A device that tells of a failed kernel when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_after = ""

    def synchronize(self, stream: int | None) -> None:
        if self.launches and self.launches[-1] == self.fails_after:
            raise DeviceError("waiting for fake:0: a kernel met a misaligned address (716)")


def watched(
    folder: Path, device: FakeDevice, debug: str, wrapper: str = LINES, **demo: Any
) -> Model:
    return load(write_demo(folder / "demo", wrapper=wrapper, **demo), device, debug=debug)


@pytest.mark.row("C:H19")
def test_the_launch_that_fails_is_named_with_the_models_line(tmp_path: Path) -> None:
    device = Failing()
    with watched(tmp_path, device, "sync") as model:
        np.testing.assert_array_equal(model(X, X), X * 4)
        device.fails_after = "add"
        wanted = r"kernel add \(demo.py:3: x \+ y\): waiting for fake:0: a kernel met a misaligned"
        with pytest.raises(DeviceError, match=wanted):
            model(X, X)
        assert device.launches[-1] == "add"
        device.fails_after = ""
        np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.row("C:K5")
def test_the_first_launch_that_writes_a_nan_is_named(tmp_path: Path) -> None:
    with watched(tmp_path, FakeDevice(), "nan") as model:
        np.testing.assert_array_equal(model(X, X), X * 4)
        ours = X.copy()
        ours[1, 2] = np.nan
        wanted = r"kernel add \(demo.py:3: x \+ y\) wrote NaN into 'total': 1 of 6 .* at position 5"
        with pytest.raises(AotpackError, match=wanted):
            model(ours, X)
        model.bind_weights({"scale": np.float32([np.nan])})
        with pytest.raises(
            AotpackError, match=r"scale \(demo.py:4: t \* scale\) .* 'output0': 6 of 6"
        ):
            model(X, X)


@pytest.mark.row("C:K5")
def test_what_lay_in_memory_before_is_no_nan_of_a_launch(tmp_path: Path) -> None:
    half = DIAMOND.replace(
        'grid, ("c", "d", "output0", n)', '(1, 1, 1), ("c", "d", "output0", n // 2)'
    )
    device = FakeDevice()
    with watched(tmp_path, device, "nan", half) as model:
        model(X, X)
        for block in device.blocks.values():
            block[:] = 255  # NaN
        model.bind_weights({"scale": np.float32([2])})
        np.testing.assert_array_equal(model(X, X)[0], np.float32([11, 11, 11]))


def test_infinities_and_integers_pass(tmp_path: Path) -> None:
    with watched(tmp_path, FakeDevice(), "nan") as model:
        np.testing.assert_array_equal(model(X * np.float32(np.inf), X), X * np.float32(np.inf))


def test_the_environment_asks_too(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_DEBUG", "nan")
    with load(package, FakeDevice()) as model, pytest.raises(AotpackError, match="wrote NaN"):
        model(X * np.float32(np.nan), X)
    with load(package, FakeDevice(), debug="sync") as model:
        assert np.isnan(model(X * np.float32(np.nan), X)).all()
    monkeypatch.setenv("AOTPACK_DEBUG", "loud")
    with pytest.raises(AotpackError, match='AOTPACK_DEBUG=\'loud\'; accepted: "sync" .* "nan"'):
        load(package, FakeDevice())
    with pytest.raises(AotpackError, match="debug='all'; accepted"):
        load(package, FakeDevice(), debug="all")
