"""Every C text of the operators, on edge values, against the reference."""

import ctypes

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import float8
from aotpack.ir.ops.reference import Array
from aotpack.render.c.operators import c_text
from tests.ir.float8_samples import CODES, NUMBERS, same_numbers
from tests.ir.samples import operands
from tests.render.c import forms
from tests.render.operator_forms import Form, all_forms, error_bound, expected

FORMS = all_forms()
FORMATS = tuple(float8.FORMATS)
ARCH = list(forms.EFFORTS)[-1]


def mismatches(form: Form, found: Array) -> list[str]:
    """The elements that are wrong, as text."""
    want, defined = expected(form)
    x, y, _ = operands(form.operand)
    if not form.result.is_float:
        good = found == want.astype(found.dtype)
    else:
        with np.errstate(all="ignore"):
            own = want.astype(found.dtype).astype(np.float64)
            wide = found.astype(np.float64)
            same = (wide == own) | (np.isnan(wide) & np.isnan(own))
            close = np.abs(wide - want) <= error_bound(form, want)
            good = same | (close & np.isfinite(own)) | (np.isinf(own) & (np.abs(wide) >= 3e38))
    bad = np.flatnonzero(~good & defined)
    return [f"{form} of {x[n]!r}, {y[n]!r}: {found[n]!r}, not {want[n]!r}" for n in bad[:4]]


@pytest.mark.row("C:inv15")
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_text_computes_the_reference(form: Form, library: ctypes.CDLL) -> None:
    assert mismatches(form, forms.computed(library, form)) == []


def test_comparison_notices_a_wrong_result(library: ctypes.CDLL) -> None:
    form = next(form for form in FORMS if form.info.name == "add")
    assert "add(uint8)" in mismatches(form, forms.computed(library, form) + 1)[0]


def test_operand_type_without_a_form_is_refused() -> None:
    assert c_text("exp", ("x",), DType.FLOAT64, DType.FLOAT64) == "aot_exp_float64(x)"
    with pytest.raises(TypeError, match="operator exp has no form for int32"):
        c_text("exp", ("x",), DType.INT32, DType.INT32)


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    texts = []
    for dtype in FORMATS:
        encode = c_text(f"{dtype}_code", ["x[i]"], DType.FLOAT32, DType.UINT8)
        decode = c_text(f"of_{dtype}_code", ["x[i]"], DType.UINT8, DType.FLOAT32)
        for name, kind, result, text in (
            ("encode", "float", "uint8_t", encode),
            ("decode", "uint8_t", "float", decode),
        ):
            head = f"AOT_EXPORT void {name}_{dtype}(const {kind} *x, {result} *y, int64_t count)"
            texts.append(f"{head} {{ for (int64_t i = 0; i < count; i++) y[i] = {text}; }}")
    return forms.library(tmp_path_factory.mktemp("float8"), tuple(texts), ARCH)


def in_c(library: ctypes.CDLL, name: str, given: Array, result: Array) -> Array:
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (given, result)]
    getattr(library, name)(*pointers, ctypes.c_int64(len(given)))
    return result


@pytest.mark.row("C:D6", "C:D7")
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_codes_are_the_reference(dtype: DType, codes: ctypes.CDLL) -> None:
    form = float8.FORMATS[dtype]
    found = in_c(codes, f"decode_{dtype}", CODES, np.empty(256, np.float32))
    assert same_numbers(found, float8.decode(CODES, form))
    found = in_c(codes, f"encode_{dtype}", NUMBERS, np.empty(len(NUMBERS), np.uint8))
    np.testing.assert_array_equal(found, float8.encode(NUMBERS, form))
