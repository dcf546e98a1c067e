from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import VerifyError, verify
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.selftest import compare

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


def test_the_accuracy_law() -> None:
    reference, dtype = np.array([1.0, -8.0, np.inf]), DTYPES["bfloat16"]
    near, far = (reference + np.array([0, error, 0]) for error in (0.07, 0.09))
    assert compare("y", near, reference, dtype, 0.01).is_passed
    assert not compare("y", far, reference, dtype, 0.01).is_passed
    assert not compare("y", np.array([1.0, -8.0, 0.0]), reference, dtype, 0.01).is_passed
    assert not compare("y", np.array([np.nan, -8.0, np.inf]), reference, dtype, 0.01).is_passed
    assert not compare("y", near[:2], reference, dtype, 0.01).is_passed
    words = str(compare("y", far, reference, dtype, 0.01))
    assert words == "y: largest error 0.09, eager's 0.01, allowed 0.0775: WRONG"
    exact = np.array([1, 2])
    assert compare("i", exact, exact, DTYPES["int64"], 0.0).is_passed
    assert not compare("i", exact, exact + 1, DTYPES["int64"], 0.0).is_passed


def test_as_many_integers_may_differ_as_rounding_lets_differ_for_eager() -> None:
    reference, dtype = np.arange(10), DTYPES["int64"]
    for eager, allowed in ((0.0, 0), (1.0, 2), (4.0, 7)):
        for differ in (allowed, allowed + 1):
            found = np.where(reference < differ, -1, reference)
            check = compare("i", found, reference, dtype, eager)
            assert check.is_passed is (differ <= allowed)
    assert str(check) == "i: 8 elements differ, of eager's 4, allowed 7: WRONG"
