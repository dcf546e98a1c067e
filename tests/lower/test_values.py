"""Constants, 16-bit rounding and indices that are read."""

import math

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Const, IndexValue, Load
from aotpack.lower.registry import CannotLower
from aotpack.lower.values import apply, constant, index_from, position, rounded

NUMBERS = [0.1, -3.14159, 1e-8, 65519.9, 65520.0, 1e30, 1e39, -1e39, math.inf, 0.0]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_rounded_is_what_torch_stores(number: float, dtype: DType) -> None:
    stored = torch.tensor(number, dtype=torch.float64).to(getattr(torch, str(dtype))).item()
    assert rounded(number, dtype) == stored


def test_integer_constants_wrap() -> None:
    assert constant(300, DType.INT8) is Const(44, DType.INT8)
    assert constant(-1, DType.UINT8) is Const(255, DType.UINT8)


@pytest.mark.row("C:F14", "C:D11")
def test_an_index_known_to_be_inside_is_used_as_it_is() -> None:
    i = Int.of(Axis("i0", Int.of(4)))
    assert index_from(position(i), Int.of(4)) is i


@pytest.mark.row("C:F14", "C:F15", "C:inv5", "C:L6")
def test_other_indices_are_wrapped_and_bounded() -> None:
    load = Load("ids", (Int.of(0),), DType.INT64)
    shown = str(index_from(load, Int.of(10)))
    assert shown == "{maximum(minimum(where(ids[0] < 0, ids[0] + 10, ids[0]), 9), 0)}"
    assert index_from(constant(-1, DType.INT64), Int.of(10)).constant == 9


def test_a_type_the_operator_does_not_have_is_refused() -> None:
    with pytest.raises(CannotLower, match="int64 operands are not accepted by exp"):
        apply("exp", IndexValue(Int.of(Axis("i0", Int.of(4))), DType.INT64))
