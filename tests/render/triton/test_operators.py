"""Every Triton text of the operators: on edge values, against the reference; and compiled."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.reference import Array
from aotpack.precompile.signature import POINTERS
from aotpack.render.triton.fast_operators import FAST_ULP
from aotpack.render.triton.operators import triton_text
from tests.ir.samples import COMPUTE, INTEGER_DIVISIONS, operands
from tests.render.operator_forms import Form, error_bound, expected
from tests.render.triton import forms

FORMS = [form for operand in COMPUTE for form in forms.forms(operand)]


def result_row(form: Form, results: Mapping[str, Array]) -> Array:
    row = forms.forms(form.operand).index(form)
    found = results[forms.kernel_name(form.operand)][row]
    if form.result.is_float and not form.operand.is_float:
        return found.view(np.float64)
    return found


def fast_bound(ends_in: DType, want: Array) -> Array:
    """The admitted absolute error of a cheaper form."""
    place = 2.0 ** (-7 if ends_in is DType.BFLOAT16 else -10)
    return np.maximum(np.abs(want) * place, 2.0**-24) * FAST_ULP


def mismatches(form: Form, results: Mapping[str, Array], *, flushes: bool = False) -> list[str]:
    """Wrong elements. ``flushes``: libdevice takes a denormal divisor of float32 for zero.

    CUDA's manual states no bound for its lgamma between -10.001 and -2.264.
    """
    found, (want, defined) = result_row(form, results), expected(form)
    x, y, _ = operands(form.operand)
    if flushes and form.info.name in INTEGER_DIVISIONS and form.operand is DType.FLOAT32:
        defined &= (y == 0) | (np.abs(y) >= np.finfo(np.float32).tiny)
    if flushes and form.info.name == "lgamma":
        defined &= (x <= -10.001) | (x >= -2.264)
    if not form.result.is_float:
        good = found == want.astype(found.dtype)
    else:
        with np.errstate(all="ignore"):
            own = want.astype(form.result.facts.numpy).astype(np.float64)
            same = (found == own) | (np.isnan(found) & np.isnan(own))
            bound = fast_bound(form.ends_in, want) if form.ends_in else error_bound(form, want)
            close = np.abs(found - want) <= bound
            good = same | (close & np.isfinite(own)) | (np.isinf(own) & (np.abs(found) >= 3e38))
    bad = np.flatnonzero(~good & defined)
    return [f"{form} of {x[n]!r}, {y[n]!r}: {found[n]!r}, not {want[n]!r}" for n in bad[:4]]


@pytest.mark.row(
    "C:inv15",
    "C:E1",
    "C:E3",
    "C:E5",
    "C:E8",
    "C:E9",
    "C:E10",
    "C:E11",
    "C:E12",
    "C:E13",
    "C:E14",
    "C:E15",
    "C:E16",
    "C:E17",
    "C:E19",
    "C:E28",
)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_text_computes_the_reference(form: Form, interpreted: Mapping[str, Array]) -> None:
    assert mismatches(form, interpreted) == []


@pytest.mark.row("C:inv15")
@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_text_computes_the_reference_on_gpu(form: Form, executed: Mapping[str, Array]) -> None:
    assert mismatches(form, executed, flushes=True) == []


def test_comparison_notices_a_wrong_result(interpreted: Mapping[str, Array]) -> None:
    form = next(form for form in FORMS if form.info.name == "add")
    spoiled = {name: results + 1 for name, results in interpreted.items()}
    assert "add(uint8)" in mismatches(form, spoiled)[0]


def kernels(tmp_path: Path) -> ModuleType:
    path = tmp_path / "kernels.py"
    path.write_text(forms.module_text())
    spec = importlib.util.spec_from_file_location("kernels_of_forms", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("operand", COMPUTE, ids=str)
def test_text_compiles(operand: DType, tmp_path: Path) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {
        "x_ptr": POINTERS[operand],
        "y_ptr": POINTERS[operand],
        "c_ptr": "*i1",
        "out_ptr": POINTERS[forms.wide(operand)],
    }
    function = getattr(kernels(tmp_path), forms.kernel_name(operand))
    source = ASTSource(function, signature=signature, constexprs={})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"][:4] == b"\x7fELF"


def test_operand_type_without_a_form_is_refused() -> None:
    assert triton_text("exp", ("x",), DType.FLOAT32, DType.FLOAT32) == "libdevice.exp(x)"
    with pytest.raises(TypeError, match="operator exp has no form for int32"):
        triton_text("exp", ("x",), DType.INT32, DType.INT32)


def test_fast_text_is_the_exact_one_where_there_is_no_faster() -> None:
    for ends_in in (None, DType.FLOAT16):
        text = triton_text("add", ("a", "b"), DType.FLOAT32, DType.FLOAT32, ends_in)
        assert text == "a + b"
    for ends_in in (DType.FLOAT16, DType.BFLOAT16):
        text = triton_text("exp", ("a",), DType.FLOAT32, DType.FLOAT32, ends_in)
        assert text == "tl.exp(a)"


def test_fast_text_is_for_float32_alone() -> None:
    wide, narrow = (
        triton_text("gelu", ("a",), dtype, dtype, DType.BFLOAT16)
        for dtype in (DType.FLOAT64, DType.FLOAT32)
    )
    assert "erf" in wide and "erf" not in narrow
