"""Every Triton text of the op table, on edge values, against the reference; and its compilation."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.opinfo import FAST_ULP
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from tests.ir import triton_forms as forms

FORMS = [form for operand in forms.COMPUTE for form in forms.forms(operand)]


def result_row(form: forms.Form, results: Mapping[str, Array]) -> Array:
    row = forms.forms(form.operand).index(form)
    found = results[forms.kernel_name(form.operand)][row]
    if form.result.is_float and not form.operand.is_float:
        return found.view(np.float64)
    return found


def expected(form: forms.Form) -> tuple[Array, Array]:
    """The exact results, and where they are defined."""
    x, y, condition = forms.operands(form.operand)
    given = [x, y][: form.info.arity] if form.info.name != "where" else [condition, x, y]
    defined = np.ones(forms.BLOCK, bool)
    if form.info.name in forms.INTEGER_DIVISIONS and form.operand.is_integer:
        overflows = (x == np.iinfo(x.dtype).min) & (
            y == y.dtype.type(-1 if x.dtype.kind == "i" else 0)
        )
        defined = (y != 0) & ~overflows
        given[1] = np.where(defined, y, 1).astype(y.dtype)
    if form.info.name == "cast" and form.operand.is_float and form.result.is_integer:
        limits = np.iinfo(form.result.facts.numpy or "")
        with np.errstate(invalid="ignore"):
            defined = (x > limits.min) & (x < limits.max)
    exact = form.info.name != "truncdiv"  # which cuts the rounded quotient
    if form.operand.is_float and form.result.is_float and exact:
        given = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in given]
    result_type = np.float64 if form.result.is_float else np.dtype(form.result.facts.numpy)
    return form.info.compute(given, np.dtype(result_type)), defined


def error_bound(form: forms.Form, want: Array) -> Array:
    """The admitted absolute error: the table's, in units of the last place, or a denormal."""
    own = np.dtype(form.result.facts.numpy)
    with np.errstate(all="ignore"):
        rounded = want.astype(own)
        if form.info.of_operand:
            rounded = np.maximum(np.abs(rounded), np.abs(forms.operands(form.operand)[0]))
        unit = np.abs(np.spacing(np.where(np.isfinite(rounded), rounded, 1)).astype(np.float64))
        if form.ends_in is not None:
            place = 2.0 ** (-7 if form.ends_in is DType.BFLOAT16 else -10)
            return np.maximum(np.abs(want) * place, 2.0**-24) * FAST_ULP
    return unit * (form.info.ulp + 0.5) + np.finfo(own).tiny


def mismatches(
    form: forms.Form, results: Mapping[str, Array], *, flushes: bool = False
) -> list[str]:
    """Wrong elements. ``flushes``: libdevice takes a denormal divisor of float32 for zero.

    CUDA's manual states no bound for its lgamma between -10.001 and -2.264.
    """
    found, (want, defined) = result_row(form, results), expected(form)
    x, y, _ = forms.operands(form.operand)
    if flushes and form.info.name in forms.INTEGER_DIVISIONS and form.operand is DType.FLOAT32:
        defined &= (y == 0) | (np.abs(y) >= np.finfo(np.float32).tiny)
    if flushes and form.info.name == "lgamma":
        defined &= (x <= -10.001) | (x >= -2.264)
    if not form.result.is_float:
        good = found == want.astype(found.dtype)
    else:
        with np.errstate(all="ignore"):
            own = want.astype(form.result.facts.numpy).astype(np.float64)
            same = (found == own) | (np.isnan(found) & np.isnan(own))
            close = np.abs(found - want) <= error_bound(form, want)
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
def test_text_computes_the_reference(form: forms.Form, interpreted: Mapping[str, Array]) -> None:
    assert mismatches(form, interpreted) == []


@pytest.mark.row("C:inv15")
@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_text_computes_the_reference_on_gpu(
    form: forms.Form, executed: Mapping[str, Array]
) -> None:
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


@pytest.mark.parametrize("operand", forms.COMPUTE, ids=str)
def test_text_compiles(operand: DType, tmp_path: Path) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {
        "x_ptr": operand.facts.pointer,
        "y_ptr": operand.facts.pointer,
        "c_ptr": "*i1",
        "out_ptr": forms.wide(operand).facts.pointer,
    }
    function = getattr(kernels(tmp_path), forms.kernel_name(operand))
    source = ASTSource(function, signature=signature, constexprs={})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"][:4] == b"\x7fELF"


def test_operand_type_without_a_form_is_refused() -> None:
    assert not OPS["exp"].accepts(DType.INT32)
    with pytest.raises(TypeError, match="operator exp has no form for int32"):
        OPS["exp"].triton(("x",), DType.INT32, DType.INT32)


def test_fast_text_is_the_exact_one_where_there_is_no_faster() -> None:
    for ends_in in (None, DType.FLOAT16):
        text = OPS["add"].triton(("a", "b"), DType.FLOAT32, DType.FLOAT32, ends_in=ends_in)
        assert text == "a + b"
    for ends_in in (DType.FLOAT16, DType.BFLOAT16):
        text = OPS["exp"].triton(("a",), DType.FLOAT32, DType.FLOAT32, ends_in=ends_in)
        assert text == "tl.exp(a)"


def test_fast_text_is_for_float32_alone() -> None:
    assert "erf" in OPS["gelu"].triton(("a",), DType.FLOAT64, DType.FLOAT64, ends_in=DType.BFLOAT16)
