"""Every C text of the operators and of the reductions, on edge values, against the reference."""

import ctypes
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.render.c.monoids import C_MONOIDS
from aotpack.render.c.texts import C_TEXTS, c_text
from tests.ir import c_forms
from tests.ir import triton_forms as forms
from tests.ir.ops.test_monoids import reduced
from tests.ir.ops.test_optable import error_bound, expected

X86 = {"x86-64": "-O1", "x86-64-v3": "-O3"}  # element by element, and in vectors
EFFORTS = X86 if platform.machine() == "x86_64" else {"armv8-a": "-O3"}
FORMS = c_forms.all_forms()
REDUCTIONS = c_forms.reductions()


@pytest.fixture(scope="module", params=EFFORTS)
def library(
    request: pytest.FixtureRequest, once: Callable[[str, Callable[[Path], object]], Path]
) -> ctypes.CDLL:
    arch: str = request.param
    folder = once(
        f"c-forms-{arch}", lambda folder: c_forms.compile_all(folder, arch, EFFORTS[arch])
    )
    return c_forms.loaded(folder)


def mismatches(form: forms.Form, found: Array) -> list[str]:
    """The elements that are wrong, as text."""
    want, defined = expected(form)
    x, y, _ = forms.operands(form.operand)
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
def test_text_computes_the_reference(form: forms.Form, library: ctypes.CDLL) -> None:
    assert mismatches(form, c_forms.computed(library, form)) == []


def test_comparison_notices_a_wrong_result(library: ctypes.CDLL) -> None:
    form = next(form for form in FORMS if form.info.name == "add")
    assert "add(uint8)" in mismatches(form, c_forms.computed(library, form) + 1)[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("monoid", "dtype", "lanes"),
    REDUCTIONS,
    ids=[c_forms.reduction_name(*one) for one in REDUCTIONS],
)
def test_reduction_gives_what_numpy_gives(
    monoid: Monoid, dtype: DType, lanes: int, library: ctypes.CDLL
) -> None:
    tile = forms.elements(dtype)
    found = c_forms.reduced(library, monoid, dtype, lanes, tile)
    for ours, want in zip(found, reduced(monoid, tile), strict=True):
        np.testing.assert_allclose(ours, want, rtol=2e-5, atol=1e-5)


@pytest.mark.row("S:P3", "C:G22")
def test_both_tables_have_the_same_operators_and_types() -> None:
    assert set(C_TEXTS) == set(OPS)
    assert set(C_MONOIDS) == set(MONOIDS)
    for name, info in OPS.items():
        for dtype in forms.COMPUTE:
            assert bool(info.accepts(dtype)) == _has_text(name, dtype), (name, dtype)


def _has_text(name: str, dtype: DType) -> bool:
    try:
        return bool(c_text(name, ("x", "y", "z"), dtype, dtype))
    except TypeError:
        return False


def test_operand_type_without_a_form_is_refused() -> None:
    assert c_text("exp", ("x",), DType.FLOAT64, DType.FLOAT64) == "aot_exp_float64(x)"
    with pytest.raises(TypeError, match="operator exp has no C form for int32"):
        c_text("exp", ("x",), DType.INT32, DType.INT32)


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
    return c_forms.library(folder, (text,), list(EFFORTS)[-1])


def _pointers(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]
