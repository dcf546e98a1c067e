"""Expressions of C: conditions around memory, 16-bit floats as bits, names that C leaves free."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Var
from aotpack.render.c.dialect import C
from tests.render.models import c_kernel
from tests.schedule.programs import BF16, F32, Writer, apply, load


def test_memory_is_touched_only_where_conditions_hold() -> None:
    assert C.load("x[i]", (), F32) == "x[i]"
    assert C.load("x[i]", ("a", "b"), F32) == "a & b ? x[i] : 0"
    assert C.store("x[i]", "t", (), F32) == "x[i] = t;"
    assert C.store("x[i]", "t", ("a", "b"), F32) == "if (a & b) x[i] = t;"


@pytest.mark.parametrize(("dtype", "stored"), [(BF16, "aot_bfloat16_of_float(t)"), (F32, "t")])
def test_short_floats_are_rounded_where_they_are_stored(dtype: DType, stored: str) -> None:
    assert C.stored("t", dtype) == stored


def test_products_of_indices_do_not_wrap() -> None:
    assert C.indirect("t1", DType.INT32) == "(int64_t)t1"
    assert C.indirect("t1", DType.INT64) == "t1"
    assert C.declare("i1", "a", None) == "const int64_t i1 = a;"


@pytest.mark.parametrize("name", ["double", "call", "x_ptr"])
def test_a_size_may_be_called_what_c_or_a_kernel_calls_something(name: str) -> None:
    size = Var(name, 1, 64)
    w = Writer((size,))
    x = w.input("x", size)
    text = c_kernel(w.program(w.pointwise("y", [size], lambda i: apply("relu", load(x, i)))))
    assert f"const int64_t size_of_{name} = (int64_t)call->cells[" in text
    assert f"int64_t {name} =" not in text


def test_indices_are_wide_as_they_are() -> None:
    assert C.wide_index() == ""
