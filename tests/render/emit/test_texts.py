"""Tables of operator texts: a type's own text comes before that of its kind."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.render.emit.texts import INTEGERS, on, text_for

TEXTS = {"op": {"float": "any", "float64": "wide", **on(INTEGERS, "whole")}}


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (DType.FLOAT32, "any"),
        (DType.FLOAT64, "wide"),
        (DType.UINT8, "whole"),
        (DType.INT64, "whole"),
    ],
)
def test_the_text_of_a_type(dtype: DType, text: str) -> None:
    assert text_for(TEXTS, "op", dtype) == text


def test_a_type_without_a_text_is_refused() -> None:
    with pytest.raises(TypeError, match="operator op has no form for bool"):
        text_for(TEXTS, "op", DType.BOOL)
