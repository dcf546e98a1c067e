"""Element types: the numbers behind bits, what is accepted as a type, and the same table twice."""

import numpy as np
import pytest
import torch

from aotpack.ir import dtypes as builder
from aotpack.runtime.dtypes import (
    BY_DLPACK,
    BY_SAFETENSORS,
    DTYPES,
    is_accepted,
    numpy_name,
    present,
    widen,
)

IN_BITS = [dtype for dtype in DTYPES.values() if not dtype.is_known_to_numpy]


@pytest.mark.parametrize("dtype", IN_BITS, ids=str)
def test_every_code_is_torch_s_number(dtype) -> None:
    codes = np.arange(2 ** (8 * dtype.itemsize), dtype=dtype.storage)
    wanted = torch.from_numpy(codes).view(getattr(torch, dtype.name)).float().numpy()
    np.testing.assert_array_equal(widen(codes, dtype), wanted)
    assert not np.array_equal(widen(codes[::-1], dtype), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", IN_BITS, ids=str)
def test_an_array_without_dimensions_stays_one(dtype) -> None:
    found = widen(np.zeros((), dtype.storage), dtype)
    assert isinstance(found, np.ndarray) and found.shape == () and found == 0


def test_numpy_users_get_what_numpy_has() -> None:
    bits = np.array([0x3F80], np.uint16)
    assert present(bits, DTYPES["bfloat16"]).astype(np.float32) == [1.0]
    assert present(bits, DTYPES["int16"]) is bits


@pytest.mark.parametrize(
    ("found", "wanted", "framework", "accepted"),
    [
        ("bfloat16", "bfloat16", "torch", True),
        ("uint16", "bfloat16", "numpy", True),
        ("uint16", "bfloat16", "torch", False),
        ("float64", "float32", "numpy", False),
    ],
)
def test_bits_of_numpy_stand_for_types_it_lacks(
    found: str, wanted: str, framework: str, accepted: bool
) -> None:
    assert is_accepted(found, DTYPES[wanted], framework) is accepted


def test_another_byte_order_is_no_type_of_ours() -> None:
    assert numpy_name(np.dtype("<f4")) in DTYPES
    assert numpy_name(np.dtype(">f4")) == "float32 of foreign byte order"


def test_the_build_and_the_package_have_the_same_types() -> None:
    sizes = {str(dtype): dtype.itemsize for dtype in builder.DType}
    assert sizes == {name: dtype.itemsize for name, dtype in DTYPES.items()}
    assert len(BY_SAFETENSORS) == len(BY_DLPACK) == len(DTYPES)
