import numpy as np
import pytest
import torch

from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_cuda_array_interface() -> None:
    array = DeviceArray.from_numpy(FakeDevice(), X, DTYPES["float32"])
    facts = array.__cuda_array_interface__
    assert (facts["shape"], facts["typestr"], facts["stream"]) == ((2, 3), "<f4", 1)
    assert facts["data"] == (array.address, False)
    host = DeviceArray.from_numpy(FakeDevice((1, 0)), X, DTYPES["float32"])
    with pytest.raises(AttributeError, match="host memory"):
        _ = host.__cuda_array_interface__


def test_a_copy_cannot_be_lent() -> None:
    array = DeviceArray.from_numpy(FakeDevice((1, 0)), X, DTYPES["float32"])
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(copy=True)


def test_bfloat16_becomes_float32_for_numpy() -> None:
    bits = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.uint16).numpy()
    array = DeviceArray.from_numpy(FakeDevice(), bits, DTYPES["bfloat16"])
    assert array.numpy().tolist() == [1.5, -2.0] and array.numpy().dtype == np.float32


def test_numpy_takes_a_copy() -> None:
    array = DeviceArray.from_numpy(FakeDevice((1, 0)), X, DTYPES["float32"])
    taken = np.asarray(array)
    assert taken.dtype == np.float32 and np.array_equal(taken, X)
    assert np.asarray(array, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="comes to the host as a copy"):
        array.__array__(copy=False)
