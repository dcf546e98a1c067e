"""Complex arrays as pairs of reals in the same memory, and back."""

from typing import Any

import numpy as np
import pytest
import torch

from aotpack.runtime.arrays.complex_views import as_complex, as_pairs, pairs_of
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.files.schema import Mismatch
from aotpack.runtime.sizes import Size
from aotpack.runtime.tensors import Tensor
from tests.runtime.fake_device import FakeDevice

Z = (np.arange(12) + 1j * np.arange(12)[::-1]).astype(np.complex64).reshape(3, 4)
F32 = DTYPES["float32"]


class Foreign:
    """An array that another framework exports by DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("array", [Z, Z.T, Z[:, ::2], Z[0, 0], Z[:0]], ids=lambda x: str(x.shape))
def test_numpy_arrays_are_viewed(array: Any) -> None:
    found = pairs_of(np.asarray(array))
    assert found.shape == (*array.shape, 2) and found.dtype == np.float32
    np.testing.assert_array_equal(found[..., 0] + 1j * found[..., 1], array)


def test_changes_are_seen_through_the_view() -> None:
    whole = Z.copy()
    as_pairs(whole, F32)[1, 2, 1] = 50
    assert whole[1, 2].imag == 50


@pytest.mark.parametrize("array", [Z, Z.T])
def test_arrays_by_dlpack_are_viewed(array: np.ndarray) -> None:
    found = np.from_dlpack(as_pairs(Foreign(array), F32))
    np.testing.assert_array_equal(found[..., 0] + 1j * found[..., 1], array)


def test_a_conjugated_view_of_torch_is_resolved() -> None:
    z = torch.from_numpy(Z.copy())
    assert torch.equal(as_complex(as_pairs(z.conj(), F32)), z.conj().resolve_conj())


def test_device_arrays_come_back_as_complex_ones() -> None:
    device = FakeDevice()
    found = as_complex(DeviceArray.from_numpy(device, pairs_of(Z), F32))
    assert found.dtype.name == "complex64" and found.shape == (3, 4)
    np.testing.assert_array_equal(found.numpy(), Z)


@pytest.mark.parametrize(("dtype", "shape"), [("int32", (3, 2)), ("float32", (2, 3))])
def test_only_a_last_dimension_of_two_floats_is_a_pair(dtype: str, shape: tuple[int, ...]) -> None:
    sizes = tuple(Size(one) for one in shape)
    with pytest.raises(Mismatch, match="float32 or float64"):
        Tensor("x", DTYPES[dtype], sizes, (), pairs=True)
