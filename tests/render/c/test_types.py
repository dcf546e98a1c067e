"""Conversions in C, bit by bit."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.reference import Array
from tests.render.c import forms


@pytest.mark.row("C:E19", "C:inv15")
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=str)
def test_sixteen_bit_floats_convert_as_eager_does(dtype: DType, tmp_path: Path) -> None:
    import torch

    torch_type = getattr(torch, str(dtype))
    library = conversions(tmp_path, dtype)
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = np.zeros(1 << 16, np.float32)
    library.widen(*_pointers(bits, wide), ctypes.c_int64(len(bits)))
    want = torch.from_numpy(bits.view(np.int16)).view(torch_type).float().numpy()
    np.testing.assert_array_equal(wide, want)
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    floats = np.concatenate([random.view(np.float32), want, np.nextafter(want, np.float32(0))])
    narrow = np.zeros(len(floats), np.uint16)
    library.narrow(*_pointers(floats, narrow), ctypes.c_int64(len(floats)))
    eager = torch.from_numpy(floats).to(torch_type)
    ours = torch.from_numpy(narrow.view(np.int16)).view(torch_type)
    assert bool(((ours == eager) | (ours.isnan() & eager.isnan())).all())


def conversions(folder: Path, dtype: DType) -> ctypes.CDLL:
    text = (
        "AOT_EXPORT void widen(const uint16_t *x, float *y, int64_t n) {"
        f" for (int64_t i = 0; i < n; i++) y[i] = aot_float_of_{dtype}(x[i]); }}\n"
        "AOT_EXPORT void narrow(const float *x, uint16_t *y, int64_t n) {"
        f" for (int64_t i = 0; i < n; i++) y[i] = aot_{dtype}_of_float(x[i]); }}\n"
    )
    return forms.library(folder, (text,), list(forms.EFFORTS)[-1])


def _pointers(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]
