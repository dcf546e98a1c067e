"""Memory lent and borrowed through DLPack capsules."""

import gc

import numpy as np
import torch

from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_lends_itself_by_dlpack_and_is_freed_when_the_last_user_goes() -> None:
    device = FakeDevice((1, 0))
    array = DeviceArray.from_numpy(device, X, DTYPES["float32"])
    lent = torch.from_dlpack(array)
    del array
    gc.collect()
    assert len(device.blocks) == 1
    np.testing.assert_array_equal(lent.numpy(), X)
    del lent
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
