import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.runtime import ArgumentError, Model, load
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Interface:
    """An array that knows ``__cuda_array_interface__`` alone."""

    def __init__(self, device: FakeDevice, **changes: Any) -> None:
        self.array = DeviceArray.from_numpy(device, X, DTYPES["float32"])
        self.changes = changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


def test_the_cuda_array_interface(model: Model, device: FakeDevice) -> None:
    result = model(Interface(device), Interface(device, strides=(12, 4)))
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), X * 4)


def test_work_on_the_owner_s_stream_is_waited_for(model: Model, device: FakeDevice) -> None:
    model(Interface(device, stream=1), Interface(device, stream=9))
    assert device.waits == [(7, 0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": (4, 8)}, "'y' is not contiguous"),
        ({"typestr": "<f8"}, "'y' has dtype float64"),
        ({"typestr": ">f4"}, "'y' has dtype float32 of foreign byte order"),
        ({"typestr": "<V2"}, "'y' has dtype bfloat16"),
    ],
)
def test_other_memory_is_refused(
    model: Model, device: FakeDevice, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(Interface(device), Interface(device, **changes))


def test_another_gpu_is_refused(package: Path) -> None:
    device = FakeDevice((2, 1))
    other = DeviceArray.from_numpy(FakeDevice((2, 0)), X, DTYPES["float32"])
    with (
        load(package, device) as model,
        pytest.raises(ArgumentError, match="'x' is on cuda:0; this model runs on cuda:1"),
    ):
        model(other, other)


def test_cupy_arrays_come_back_on_cupy_s_stream(
    model: Model, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    class ndarray(DeviceArray):  # noqa: N801
        __module__ = "cupy"

        @property
        def data(self) -> SimpleNamespace:
            return SimpleNamespace(ptr=self.address)

    cupy: Any = ModuleType("cupy")
    cupy.empty = lambda shape, dtype: ndarray(device, shape, DTYPES[dtype])
    cupy.cuda = SimpleNamespace(
        Device=Nothing, ExternalStream=Nothing, get_current_stream=lambda: SimpleNamespace(ptr=3)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = ndarray.from_numpy(device, X, DTYPES["float32"])
    result = model(x, x)
    assert type(result) is ndarray and device.streams == [3]
    np.testing.assert_array_equal(result.numpy(), X * 4)


def test_the_strongest_framework_of_a_call_returns(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        assert isinstance(model(X, torch.from_numpy(X)), torch.Tensor)
