"""Memory exported and imported through DLPack capsules."""

import gc

import numpy as np
import pytest
import torch

from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.arrays.dlpack import import_capsule, is_contiguous
from aotpack.runtime.dtypes import DTYPES, DType
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


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_what_torch_lends_is_read_with_its_type_and_place(dtype: DType) -> None:
    tensor = torch.zeros(2, 3, dtype=getattr(torch, dtype.name))
    found = import_capsule(tensor.__dlpack__())
    assert found == (tensor.data_ptr(), (2, 3), dtype.name, (1, 0), True)


def test_types_and_gaps_that_no_kernel_takes_are_told() -> None:
    assert (
        import_capsule(torch.zeros(2, dtype=torch.complex64).__dlpack__()).dtype
        == "DLPack type 5:64x1"
    )
    assert not import_capsule(torch.zeros(3, 2).T.__dlpack__()).contiguous


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [
        ((2, 3), None, True),
        ((2, 3), (3, 1), True),
        ((2, 1, 3), (3, 99, 1), True),
        ((0, 3), (7, 7), True),
        ((2, 3), (1, 2), False),
        ((2, 3), (4, 1), False),
    ],
)
def test_rows_without_gaps(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, contiguous: bool
) -> None:
    assert is_contiguous(shape, strides) is contiguous
