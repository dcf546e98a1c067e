"""Arrays and device arrays in a memory order."""

import numpy as np
import pytest
import torch

from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.arrays.orders import empty, from_memory, laid_out
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.strides import is_dense, strides
from tests.runtime.fake_device import FakeDevice

ORDERS = [(), (0, 1, 2), (0, 2, 1), (2, 0, 1), (2, 1, 0)]
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def steps(array: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_memory_lies_in_the_order(order: tuple[int, ...]) -> None:
    wanted = strides(X.shape, order)
    assert steps(empty(X.shape, "float32", order)) == wanted
    copy = laid_out(X, "float32", order)
    assert steps(copy) == wanted and np.array_equal(copy, X) and copy.base is not X
    assert is_dense(X.shape, wanted, order)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_device_arrays_export_their_order(order: tuple[int, ...]) -> None:
    array = DeviceArray.from_numpy(FakeDevice((1, 0)), X, DTYPES["float32"], order)
    lent = torch.from_dlpack(array)
    assert lent.stride() == strides(X.shape, order) and np.array_equal(lent.numpy(), X)
    assert np.array_equal(array.numpy(), X)
    given = DeviceArray.from_numpy(FakeDevice(), X, DTYPES["float32"], order)
    shown = given.__cuda_array_interface__["strides"]
    assert shown == (tuple(4 * step for step in strides(X.shape, order)) if order else None)


def test_tensors_are_turned_as_arrays_are() -> None:
    rows = torch.zeros(4, 2, 3)
    assert from_memory(rows, (2, 0, 1)).stride() == strides((2, 3, 4), (2, 0, 1))
