from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import VerifyError, verify

from .fake_device import FakeDevice
from .packages import WRAPPER, write_demo


def test_a_right_package_passes(package: Path, device: FakeDevice) -> None:
    report = verify(package, device)
    assert report.is_passed
    assert "output0: largest error 0, eager's 1e-06, allowed" in str(
        report
    ) and "no file written" in str(report)


def test_a_wrong_answer_fails(tmp_path: Path, device: FakeDevice) -> None:
    wrong = WRAPPER.replace('("x", "y", "total"', '("x", "x", "total"').replace(
        '("total", "scale", "output0"', '("total", "total", "output0"'
    )
    report = verify(write_demo(tmp_path / "demo", wrapper=wrong), device)
    assert not report.is_passed and "WRONG" in str(report)


def test_changed_weights_fail(package: Path, device: FakeDevice) -> None:
    file = package / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + np.float32(2.00000024).tobytes())
    with pytest.raises(VerifyError, match="not those of the build: weights.safetensors is changed"):
        verify(package, device)


def test_a_changed_runtime_fails(package: Path, device: FakeDevice) -> None:
    assert verify(package, device).is_passed
    (package / "_runtime" / "loading.py").write_text("# nothing")
    with pytest.raises(VerifyError, match="not those of the build: _runtime/loading.py is changed"):
        verify(package, device)
