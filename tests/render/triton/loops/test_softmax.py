"""Cheaper forms of exponentials: where results have 16 bits, and where a program holds them."""

from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.render.triton.loops.loops import loop_kernel
from tests.render.triton.loops.rows import IN_LOOPS, IN_REGISTERS, LENGTH, ROWS, text
from tests.schedule.programs import BF16, F16, F32, Writer, apply, load, schedule_of

PART = replace(IN_REGISTERS, r=512, cluster_size=2)


def weights(tile: ReductionTile, dtype: DType, *, of: str = "t") -> str:
    """The softmax of rows, as it is computed on a tile; or exp(x - of) over the same sums."""
    w = Writer()
    x, _ = w.input("x", ROWS, LENGTH, dtype=dtype), w.input("other", ROWS)
    _, total = w.reductions(
        ("t", "s"), [ROWS], [LENGTH], lambda i, r: load(x, i, r), kind="softmax"
    )

    def weight(i: Int, j: Int) -> Value:
        distance = apply("sub", load(x, i, j), load(w.buffers[of], i))
        return apply("div", apply("exp", distance), load(total, i))

    schedule = schedule_of(w.program(w.pointwise("y", [ROWS, LENGTH], weight, dtype=dtype)), 90)
    (kernel,) = schedule.kernels
    return text(loop_kernel(schedule, kernel, tile))


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_results_of_16_bits_are_products_with_powers_of_two(dtype: DType) -> None:
    lines = weights(IN_LOOPS, dtype)
    assert lines.count("tl.exp2(") == 2
    assert lines.count("1.0 / ") == 1 and lines.count(" / ") == 1  # one for a row


def test_wider_results_are_quotients_of_exponentials() -> None:
    lines = weights(IN_LOOPS, F32)
    assert "tl.exp2(" not in lines and lines.count("libdevice.exp(") == 2
    assert lines.count("tl.div_rn(") == 2


def test_the_distance_from_something_else_has_no_cheaper_form() -> None:
    lines = weights(IN_LOOPS, BF16, of="other")
    assert "tl.exp2(" not in lines and "tl.exp(" in lines


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_exponentials_of_a_part_in_registers_are_scaled_by_one_factor_a_row(dtype: DType) -> None:
    *_, exponential, ratio, result, store = weights(PART, dtype).splitlines()
    assert "libdevice.exp(" in exponential and " / " in ratio and " * " in result
    assert store.startswith("tl.store(out_ptr")


def test_what_is_not_held_is_computed_again() -> None:
    lines = weights(PART, F32, of="other")
    assert lines.count("exp2(") == lines.count("exp(") == 1 and "tl.div_rn(" in lines
