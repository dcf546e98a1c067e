"""Type promotion is torch's."""

import itertools

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.lower.promotion import Operand, promote, result_type
from tests.lower.oracle import dtype_of

TYPES = [getattr(torch, dtype.value) for dtype in DType]
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


def test_nothing_has_no_type() -> None:
    with pytest.raises(ValueError, match="no operands"):
        result_type([])
