"""Operators that torch runs between launches, on the memory of the plan."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Passed, TorchOperator
from aotpack.runtime import DeviceError, PackageError, load
from aotpack.stages import TorchCall

from .fake_device import FakeDevice
from .packages import demo

F32 = DType.FLOAT32
X = np.arange(6, dtype=np.float32).reshape(2, 3)
WRAPPER = '''\
"""demo 0.1.0"""
from ._runtime import Buffer, Call, Launch, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    n, grid, shape = b*s, (b*s, 1, 1), (b, s)
    return Plan(
        buffers=(Buffer("t", 4*n, 0, 1), Buffer("u", 4*n, 1, 2)),
        outputs=(shape,),
        launches=(
            Launch("add", grid, ("x", "y", "t", n)),
            Call("called", (("t", shape), ("u", shape))),
            Launch("scale", grid, ("u", "scale", "output0", n)),
        ),
    )
'''


def package_of(
    folder: Path,
    operator: str = "aten.cumsum.default",
    dtype: DType = F32,
    wrapper: str = WRAPPER,
) -> Path:
    """2 * operator(x + y, 1)."""
    call = TorchOperator(operator, (Passed(0), 1), (), ("t", "u"), "no lowering")
    made = demo(wrapper)
    calls = (TorchCall("called", call, (F32, dtype), 1),)
    write_package(replace(made, rendered=replace(made.rendered, calls=calls)), folder / "demo")
    return folder / "demo"


@pytest.mark.parametrize("shape", [(2, 3), (2, 0)])
def test_torch_reads_and_writes_the_memory_of_the_plan(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    x = np.ones(shape, np.float32)
    with load(package_of(tmp_path), FakeDevice((1, 0))) as model:
        np.testing.assert_array_equal(model(x, 2 * x), 2 * np.cumsum(3 * x, 1))


def test_what_torch_raises_is_told_with_the_operator(tmp_path: Path) -> None:
    folder = package_of(tmp_path, "aten.cholesky.default")
    words = "running aten.cholesky.default through torch on fake:0: .*Error"
    with load(folder, FakeDevice((1, 0))) as model, pytest.raises(DeviceError, match=words):
        model(X, X)


def test_another_result_than_at_the_build_is_refused(tmp_path: Path) -> None:
    folder = package_of(tmp_path, dtype=DType.INT32)
    words = "it gave torch.float32 .*, at the build torch.int32"
    with load(folder, FakeDevice((1, 0))) as model, pytest.raises(DeviceError, match=words):
        model(X, X)


def test_an_operator_torch_does_not_have_is_refused_when_the_package_is_loaded(
    tmp_path: Path,
) -> None:
    folder = package_of(tmp_path, "mine.cumsum.default")
    with pytest.raises(PackageError, match="no operator mine.cumsum.*--import MODULE"):
        load(folder, FakeDevice((1, 0)))


def test_a_call_the_manifest_does_not_know_is_refused(tmp_path: Path) -> None:
    folder = package_of(tmp_path, wrapper=WRAPPER.replace('Call("called"', 'Call("lost"'))
    words = "manifest.json says nothing of the call lost"
    with load(folder, FakeDevice((1, 0))) as model, pytest.raises(PackageError, match=words):
        model(X, X)


def test_a_torch_without_cuda_is_refused_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="torch runs aten.cumsum.default, .* has no CUDA"):
        load(package_of(tmp_path), FakeDevice())
