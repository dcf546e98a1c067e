"""Texts by the operand's type or its kind."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.render.c.monoids import C_MONOIDS
from aotpack.render.c.operators import C_TEXTS
from aotpack.render.emit.texts import INTEGERS, Texts, on, text_for
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.operators import TRITON_TEXTS
from tests.ir.samples import COMPUTE

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


def has_text(texts: Texts, op: str, dtype: DType) -> bool:
    return bool({str(dtype), dtype.facts.kind} & set(texts[op]))


@pytest.mark.row("S:P3", "C:G22")
@pytest.mark.parametrize("texts", [TRITON_TEXTS, C_TEXTS], ids=["triton", "c"])
def test_a_language_has_texts_for_exactly_what_operators_accept(texts: Texts) -> None:
    assert set(texts) == set(OPS)
    for name, info in OPS.items():
        for dtype in COMPUTE:
            assert info.accepts(dtype) == has_text(texts, name, dtype), (name, dtype)


@pytest.mark.row("S:P3", "C:G22")
def test_every_language_has_every_reduction() -> None:
    assert set(TRITON_MONOIDS) == set(C_MONOIDS) == set(MONOIDS)
