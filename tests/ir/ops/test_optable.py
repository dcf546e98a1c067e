"""The op table: which operands an operator accepts, and the type of its result."""

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.optable import OPS


def test_operands_by_kind_and_by_type() -> None:
    assert OPS["exp"].accepts(DType.FLOAT64) and not OPS["exp"].accepts(DType.INT32)
    assert OPS["philox"].accepts(DType.INT64) and not OPS["philox"].accepts(DType.INT32)
    assert OPS["shift_left"].accepts(DType.UINT8) and not OPS["shift_left"].accepts(DType.BOOL)


def test_result_types() -> None:
    types = {
        name: OPS[name].result_type(DType.FLOAT32, DType.INT8)
        for name in ("add", "lt", "cast", "bits", "float8_e5m2_code")
    }
    assert types == {
        "add": DType.FLOAT32,
        "lt": DType.BOOL,
        "cast": DType.INT8,
        "bits": DType.INT32,
        "float8_e5m2_code": DType.UINT8,
    }


def test_a_result_has_the_type_that_is_asked_for() -> None:
    quotient = OPS["div"].compute([np.ones(1), np.zeros(1)], np.dtype(np.float32))
    assert quotient.dtype == np.float32 and np.isposinf(quotient[0])
