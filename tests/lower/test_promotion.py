"""Type promotion is torch's."""

import itertools

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.lower.promotion import Operand, promote, result_type
from aotpack.lower.registry import CannotLower
from tests.lower.oracle import dtype_of

TYPES = [getattr(torch, dtype.value) for dtype in DType if not dtype.is_float8]
PAIRS = list(itertools.product(TYPES, TYPES))


def test_promote_is_torch_promote_types() -> None:
    for a, b in PAIRS:
        assert promote(dtype_of(a), dtype_of(b)) is dtype_of(torch.promote_types(a, b)), (a, b)


def test_zero_dimensional_tensors_are_weaker() -> None:
    for a, b in PAIRS:
        expected = torch.result_type(torch.ones(2, dtype=a), torch.ones((), dtype=b))
        found = result_type([Operand(dtype_of(a), "tensor"), Operand(dtype_of(b), "zero-dim")])
        assert found is dtype_of(expected), (a, b)


@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_numbers_are_weakest(number: float) -> None:
    kind = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT32}[type(number)]
    for dtype in TYPES:
        expected = dtype_of(torch.result_type(torch.ones(2, dtype=dtype), number))
        found = result_type([Operand(dtype_of(dtype), "tensor"), Operand(kind, "number")])
        assert found is expected, dtype


@pytest.mark.parametrize("other", [torch.float16, torch.float32, torch.float8_e5m2])
def test_8_bit_floats_have_no_common_type_with_other_floats(other: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match="not supported"):
        torch.promote_types(torch.float8_e4m3fn, other)
    with pytest.raises(CannotLower, match="no common type; cast one"):
        promote(DType.FLOAT8_E4M3FN, dtype_of(other))
    assert promote(DType.FLOAT8_E4M3FN, DType.INT64) is DType.FLOAT8_E4M3FN


def test_nothing_has_no_type() -> None:
    with pytest.raises(ValueError, match="no operands"):
        result_type([])
