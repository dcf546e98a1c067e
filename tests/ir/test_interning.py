"""Equal nodes are one object; numbers that only compare equal are not."""

import gc

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.interning import Interned
from aotpack.ir.values import Apply, Const


@pytest.mark.row("S:A5", "S:T12")
def test_equal_nodes_are_one_object() -> None:
    one = Const(1.0, DType.FLOAT32)
    assert Const(1.0, DType.FLOAT32) is one
    assert Apply("exp", (one,), DType.FLOAT32) is Apply("exp", (one,), DType.FLOAT32)


@pytest.mark.row("C:D9", "C:E21", "C:def6")
def test_numbers_that_differ_in_type_or_sign_stay_apart() -> None:
    assert Const(1, DType.INT32) is not Const(1, DType.INT64)
    assert Const(0.0, DType.FLOAT32) is not Const(-0.0, DType.FLOAT32)
    assert Const(True, DType.BOOL) is not Const(1, DType.BOOL)
    assert Const(float("nan"), DType.FLOAT32) is Const(float("nan"), DType.FLOAT32)


def test_unused_nodes_are_forgotten() -> None:
    before = len(Const._instances)
    kept = [Const(float(n) + 0.123, DType.FLOAT64) for n in range(50)]
    assert len(Const._instances) == before + len(kept)
    del kept
    gc.collect()
    assert len(Const._instances) <= before
    assert isinstance(Const, Interned)
