"""Every C text of the reductions, on edge values, against the numpy parts."""

import ctypes

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from tests.ir.samples import elements, reduced
from tests.render.c import forms

REDUCTIONS = forms.reductions()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("monoid", "dtype", "lanes"),
    REDUCTIONS,
    ids=[forms.reduction_name(*one) for one in REDUCTIONS],
)
def test_reduction_gives_what_numpy_gives(
    monoid: Monoid, dtype: DType, lanes: int, library: ctypes.CDLL
) -> None:
    tile = elements(dtype)
    found = forms.reduced(library, monoid, dtype, lanes, tile)
    for ours, want in zip(found, reduced(monoid, tile), strict=True):
        np.testing.assert_allclose(ours, want, rtol=2e-5, atol=1e-5)
