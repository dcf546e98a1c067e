"""Types and numbers as Triton text."""

from aotpack.ir.dtypes import DType
from aotpack.render.triton.types import TRITON_TYPES, triton_literal


def test_literals() -> None:
    assert [triton_literal(x) for x in (float("-inf"), 0.5, 3, False)] == [
        'float("-inf")',
        "0.5",
        "3",
        "False",
    ]


def test_every_type_has_a_name() -> None:
    assert set(TRITON_TYPES) == set(DType)
    assert {TRITON_TYPES[dtype] for dtype in DType if dtype.is_float8} == {"tl.uint8"}
