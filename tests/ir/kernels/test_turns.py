"""What each program of a loop computes, and which loops no program can compute alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from aotpack.ir.kernels.turns import MOST_INLINED, turns_of
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import ConcatBuffer, targets
from aotpack.ir.values import Load
from tests.schedule.loops import loop_in, loop_of, scheduled, with_links
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


def test_factors_that_a_turn_computes_are_refused() -> None:
    """A row of a product scales the columns of the right factor of another."""

    def scaled(s: torch.Tensor, x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return s @ (w * v[:1]) + x

    def by_state(s: torch.Tensor, x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> Any:
        return s @ (w * (s @ v)) + x

    args = torch.randn(1, 8), torch.randn(4, 1, 8), torch.randn(8, 8), torch.randn(8, 8)
    assert turns_of(loop_of(scaled, *args)) is not None
    assert turns_of(loop_of(by_state, *args)) is None


@pytest.mark.parametrize(("columns", "is_held"), [(4, False), (8, True)])
def test_products_of_fewer_columns_than_units_are_refused(columns: int, is_held: bool) -> None:
    """Programs would read columns of the factor that there are not, where others take an input."""

    def step(s: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cat([(s @ w)[:, :4], x], -1)

    args = torch.randn(3, 8), torch.randn(4, 3, 4), torch.randn(8, columns)
    assert (turns_of(loop_of(step, *args)) is not None) is is_held


def test_turns_of_many_operations_are_refused() -> None:
    loop = loop_in(scheduled(20))
    assert turns_of(with_links(loop, ["link"])) is not None
    assert turns_of(with_links(loop, [f"link{n}" for n in range(MOST_INLINED)])) is None


def test_results_that_are_written_in_parts_are_refused() -> None:
    loop = with_links(loop_in(scheduled(20)), ["part", "link"])
    assert turns_of(loop) is not None
    entry, body = loop.parts
    program, whole = body.program, replace(body.program.buffers["part"], name="whole")
    (link,) = (one for one in program.operations if targets(one) == ("link",))
    assert isinstance(link, Pointwise) and isinstance(link.value, Load)
    of_whole = replace(link, value=Load("whole", link.value.index, link.value.dtype))
    program = replace(
        program,
        buffers=program.buffers | {"whole": whole},
        operations=tuple(of_whole if one is link else one for one in program.operations),
        concats=(ConcatBuffer("whole", ("part",)),),
    )
    assert turns_of(replace(loop, parts=(entry, replace(body, program=program)))) is None


def test_other_kernels_have_no_turns() -> None:
    w = Writer()
    x = w.input("x", 512)
    (kernel,) = schedule_of(w.program(w.pointwise("y", [512], lambda i: load(x, i)))).kernels
    assert turns_of(kernel) is None
