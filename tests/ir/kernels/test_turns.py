"""What each program of a loop computes, and which loops no program can compute alone."""

import pytest

from aotpack.ir.kernels.turns import turns_of
from tests.schedule.loops import loop_in, scheduled
from tests.schedule.programs import Writer, load, schedule_of


def test_a_state_that_products_multiply_is_exchanged() -> None:
    turns = turns_of(loop_in(scheduled(20)))
    assert turns is not None
    (state,), (stack,), (window,) = turns.carried, turns.stacked, turns.windows
    assert (turns.exchanged, state.buffer, stack.buffer) == ("scan_out0", "scan_out0", "scan_out1")
    assert [str(one) for one in stack.index] == ["scan_turn", "row", "unit"]
    assert state.value is stack.value
    assert f"{window.name}[row, unit]" in str(state.value)
    assert str(window.product.rhs) == "weight[unit, r0]"


@pytest.mark.parametrize("rows", [1, 3])
def test_states_that_are_changed_before_a_product_are_refused(rows: int) -> None:
    assert turns_of(loop_in(scheduled(20, rows))) is not None
    assert turns_of(loop_in(scheduled(20, rows, turned=True))) is None


def test_windows_of_a_product_are_in_order() -> None:
    turns = turns_of(loop_in(scheduled(20, gates=4)))
    assert turns is not None and turns.stride == 20
    assert [window.first for window in turns.windows] == [0, 20, 40, 60]
    assert str(turns.windows[3].product.rhs) == "weight[unit + 60, r0]"


def test_other_kernels_have_no_turns() -> None:
    w = Writer()
    x = w.input("x", 512)
    (kernel,) = schedule_of(w.program(w.pointwise("y", [512], lambda i: load(x, i)))).kernels
    assert turns_of(kernel) is None
