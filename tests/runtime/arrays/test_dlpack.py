"""Memory exported and imported through DLPack capsules, by exporters who may lie."""

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.arrays.dlpack import _tensor, import_capsule
from aotpack.runtime.dtypes import DTYPES, DType
from aotpack.runtime.errors import ArgumentError
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_lends_itself_by_dlpack_and_is_freed_when_the_last_user_goes() -> None:
    device = FakeDevice((1, 0))
    array = DeviceArray.from_numpy(device, X, DTYPES["float32"])
    imported = torch.from_dlpack(array)
    del array
    gc.collect()
    assert len(device.blocks) == 1
    np.testing.assert_array_equal(imported.numpy(), X)
    del imported
    gc.collect()
    assert device.blocks == {}


def test_an_unused_capsule_gives_the_memory_back() -> None:
    device = FakeDevice((1, 0))
    array = DeviceArray.from_numpy(device, X, DTYPES["float32"])
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert len(device.blocks) == 1
    del capsule
    gc.collect()
    assert device.blocks == {}


def test_an_exception_on_its_way_passes_the_end_of_the_memory() -> None:
    device = FakeDevice((1, 0))
    for _ in range(3):
        with pytest.raises(IndexError, match="index 99 is out of bounds"):
            np.from_dlpack(DeviceArray.from_numpy(device, X, DTYPES["float32"]))[99]
        with pytest.raises(IndexError, match="index 99 is out of bounds"):
            torch.from_dlpack(DeviceArray.from_numpy(device, X, DTYPES["float32"]))[99]
    gc.collect()
    assert device.blocks == {}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3), (1, 6, 1)])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_what_is_exported_is_read_as_it_was(shape: tuple[int, ...], dtype: DType) -> None:
    array = DeviceArray(FakeDevice((1, 0)), shape, dtype)
    found = import_capsule(array.__dlpack__())
    assert found == (array.address, shape, dtype.name, (1, 0), None)


def _changed(**fields: Any) -> Any:
    """A capsule of X with other fields in its tensor."""
    capsule = X.copy().__dlpack__()
    for name, value in fields.items():
        setattr(_tensor(capsule), name, value)
    return capsule


def _negative() -> Any:
    capsule = X.copy().__dlpack__()
    _tensor(capsule).shape[0] = -1
    return capsule


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_new_capsule.restype = ctypes.py_object


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _changed(ndim=-1), "has -1 dimensions"),
        (lambda: _changed(ndim=10**9), "has 1000000000 dimensions"),
        (lambda: _changed(data=None), r"of shape \[2, 3\] has no memory"),
        (_negative, r"has the shape \[-1, 3\]"),
        (lambda: _new_capsule(1, b"dltensor_versioned", None), "not a capsule named 'dltensor'"),
        (lambda: 5, "gave int, not a capsule named 'dltensor'"),
    ],
)
def test_capsules_that_cannot_be_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        import_capsule(make())


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_what_torch_lends_is_read_with_its_type_and_place(dtype: DType) -> None:
    tensor = torch.zeros(2, 3, dtype=getattr(torch, dtype.name))
    found = import_capsule(tensor.__dlpack__())
    assert found == (tensor.data_ptr(), (2, 3), dtype.name, (1, 0), (3, 1))


def test_types_and_gaps_that_no_kernel_takes_are_told() -> None:
    assert import_capsule(torch.zeros(2, dtype=torch.complex64).__dlpack__()).dtype == "complex64"
    assert import_capsule(torch.zeros(2, dtype=torch.uint16).__dlpack__()).dtype == (
        "DLPack type 1:16x1"
    )
    assert import_capsule(torch.zeros(3, 2).T.__dlpack__()).strides == (1, 2)
