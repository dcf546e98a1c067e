"""Rows in registers are read once; long parts stay as they are in memory."""

from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import ReductionTile
from tests.render.triton.loops.rows import IN_REGISTERS, shares_on, text
from tests.schedule.programs import BF16, F32

PART = replace(IN_REGISTERS, r=512, cluster_size=2)


def test_a_row_is_read_once() -> None:
    lines = text(shares_on(IN_REGISTERS))
    assert lines.count("tl.load(x_ptr") == 1 and "for " not in lines


def test_packed_elements_are_widened_at_each_use() -> None:
    made = shares_on(PART, BF16)
    assert text(made).count("opaque(t1).to(tl.float32)") == 2
    assert "def opaque(x):" in made.builder.functions["opaque"]


@pytest.mark.parametrize(("tile", "dtype", "casts"), [(PART, F32, 0), (IN_REGISTERS, BF16, 2)])
def test_other_elements_are_widened_once(tile: ReductionTile, dtype: DType, casts: int) -> None:
    made = shares_on(tile, dtype)
    assert "opaque" not in text(made) and "opaque" not in made.builder.functions
    assert text(made).count(".to(tl.float32)") == casts  # of the row and of the weight
