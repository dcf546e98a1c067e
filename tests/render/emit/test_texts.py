"""Texts by the operand's type or its kind."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.render.emit.texts import INTEGERS, on, text_for

TEXTS = {"abs": {"float32": "fabsf({0})", "float": "fabs({0})", **on(INTEGERS, "abs({0})")}}


@pytest.mark.parametrize(
    ("dtype", "text"),
    [(DType.FLOAT32, "fabsf({0})"), (DType.FLOAT64, "fabs({0})"), (DType.UINT8, "abs({0})")],
)
def test_a_type_of_its_own_comes_before_its_kind(dtype: DType, text: str) -> None:
    assert text_for(TEXTS, "abs", dtype) == text


def test_a_kind_without_a_text_is_refused() -> None:
    with pytest.raises(TypeError, match="operator abs has no form for bool"):
        text_for(TEXTS, "abs", DType.BOOL)
