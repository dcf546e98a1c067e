"""Casts of rounded and limited numbers as text; ``tests/e2e/test_nearest.py`` has the answers."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Value
from tests.render.models import triton_kernel
from tests.schedule.programs import F32, Writer, apply, load


def codes(dtype: DType, low: float, high: float) -> str:
    w = Writer()
    x = w.input("x", 4096)

    def code(i: Int) -> Value:
        limited = apply("minimum", apply("maximum", apply("round", load(x, i)), low), high)
        return Apply("cast", (limited,), dtype)

    return triton_kernel(w.program(w.pointwise("y", [4096], code, dtype=dtype)))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(DType.INT8, -128.0, 127.0), (DType.UINT8, 0.0, 255.0), (DType.INT32, -1e6, 4194304.0)],
)
def test_limits_within_the_type_allow_an_addition(dtype: DType, low: float, high: float) -> None:
    text = codes(dtype, low, high)
    assert "+ 12582912.0).to(tl.int32, bitcast=True)" in text and "libdevice.rint" not in text
    assert ("- 1262485504" in text) is (dtype is DType.INT32)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (DType.INT8, -129.0, 127.0),  # beyond the type
        (DType.UINT8, -1.0, 255.0),
        (DType.INT32, -1e6, 4194305.0),  # beyond the sum's last place
        (DType.INT8, -90.5, 90.0),  # no integer
    ],
)
def test_others_convert(dtype: DType, low: float, high: float) -> None:
    text = codes(dtype, low, high)
    assert "libdevice.rint" in text and "12582912.0" not in text


def test_what_is_left_a_float_is_rounded_as_it_is() -> None:
    assert "libdevice.rint" in codes(F32, -128.0, 127.0)
