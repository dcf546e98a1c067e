"""Every Triton text of the reductions, on edge values, against the numpy parts."""

from collections.abc import Mapping

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.reference import Array
from tests.ir.samples import COLUMNS, elements, reduced
from tests.render.triton import forms

REDUCTIONS = forms.reductions()


@pytest.mark.row("S:B4", "C:G5", "C:G6", "C:G8", "C:G14", "C:inv18")
@pytest.mark.parametrize(
    ("monoid", "dtype", "block"),
    REDUCTIONS,
    ids=[forms.reduction_name(monoid, dtype, block=block) for monoid, dtype, block in REDUCTIONS],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_triton_text_gives_what_numpy_gives(
    monoid: Monoid,
    dtype: DType,
    block: bool,
    interpreted: Mapping[str, Array],
) -> None:
    want = reduced(monoid, elements(dtype)[:, : COLUMNS - 5])
    name = forms.reduction_name(monoid, dtype, block=block)
    for number, expected in enumerate(want):
        found = interpreted[f"{name}_{number}"]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_comparison_notices_a_wrong_result(interpreted: Mapping[str, Array]) -> None:
    tile = elements(DType.INT32)[:, : COLUMNS - 5]
    found = interpreted["reduce_sum_int32_pairs_0"]
    np.testing.assert_array_equal(found, tile.sum(-1))
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(found + 1, tile.sum(-1))
