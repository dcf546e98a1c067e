"""Sorts as counts and merges: the same order, for every length, and no more than is read."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aotpack.devices import H200
from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.operations import Pointwise, Reduction, Sort
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.values import Apply, Load, Value
from aotpack.ir.verify.program import verify
from aotpack.schedule.sorts.expand_sorts import (
    LONGEST_COUNTED,
    RUN,
    SHORTEST_SELECTED,
    expand_sorts,
)
from aotpack.schedule.sorts.select_first import longest_run

F32, I64 = DType.FLOAT32, DType.INT64
LONGEST_RUN = longest_run(1, H200)
N = Var("n", 1, 700)


def sorting(
    length: int | Var, *, descending: bool = False, kept: int | None = None, square: bool = False
) -> Program:
    """Rows of a 2 x length tensor (or their squares) sorted; ``kept``: only so many are read."""
    size = Int.of(length)
    i, j = Axis("i", Int.of(2)), Axis("j", size)
    here = (Int.of(i), Int.of(j))
    value: Value = Load("x", here, F32)
    if square:
        value = Apply("square", (value,), F32)
    operations: list[Sort | Pointwise] = [Sort(("v", "p"), (i, j), j, value, descending)]
    shape = (Int.of(2), size)
    buffers = {n: Buffer(n, I64 if n == "p" else F32, shape) for n in ("x", "v", "p")}
    if kept is not None:
        k = Axis("k", Int.of(kept))
        first = (Int.of(i), Int.of(k))
        operations.append(Pointwise("v_top", (i, k), Load("v", first, F32), first))
        operations.append(Pointwise("p_top", (i, k), Load("p", first, I64), first))
        for name, dtype in (("v_top", F32), ("p_top", I64)):
            buffers[name] = Buffer(name, dtype, (Int.of(2), Int.of(kept)))
    outputs = ("v", "p") if kept is None else ("v_top", "p_top")
    sizes = (length,) if isinstance(length, Var) else ()
    return Program(sizes, buffers, ("x",), (), tuple(operations), outputs)


def check(program: Program, expanded: Program, x: np.ndarray, **sizes: int) -> None:
    wanted, found = (evaluate(p, {"x": x}, {}, sizes) for p in (program, expanded))
    for name in program.outputs:
        np.testing.assert_array_equal(wanted[name], found[name])


def drawn(length: int, seed: int = 0) -> np.ndarray:
    """Numbers with many ties, a few NaN and infinities."""
    random = np.random.default_rng(seed)
    x = random.integers(-4, 5, (2, length)).astype(np.float32)
    x[random.random(x.shape) < 0.05] = np.nan
    x[random.random(x.shape) < 0.05] = -np.inf
    return x


LENGTHS = [2, 3, RUN, LONGEST_COUNTED, LONGEST_COUNTED + 1, 9 * RUN, 9 * RUN + 1, 10 * RUN - 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_agrees_with_the_sort(length: int, descending: bool) -> None:
    program = sorting(length, descending=descending)
    expanded = expand_sorts(program, H200)
    verify(expanded)
    assert not any(isinstance(operation, Sort) for operation in expanded.operations)
    check(program, expanded, drawn(length))


SELECTED_LENGTHS = [SHORTEST_SELECTED + 1, 129, 1031, LONGEST_RUN, LONGEST_RUN + 1, 2 * LONGEST_RUN]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", SELECTED_LENGTHS)
@pytest.mark.parametrize("kept", [1, 8, 32])
def test_few_are_selected_bit_by_bit(kept: int, length: int, descending: bool) -> None:
    program = sorting(length, descending=descending, kept=kept)
    expanded = expand_sorts(program, H200)
    verify(expanded)
    assert int(expanded.buffers["v"].shape[1]) <= LONGEST_COUNTED
    check(program, expanded, drawn(length))


@pytest.mark.parametrize("extra", [1, 40, LONGEST_RUN - 1])
def test_the_last_run_may_have_fewer_than_are_kept(extra: int) -> None:
    program = sorting(3 * LONGEST_RUN + extra, descending=True, kept=200)
    check(program, expand_sorts(program, H200), drawn(3 * LONGEST_RUN + extra))


def test_rows_of_the_least_and_the_greatest_numbers_are_selected() -> None:
    """There the bound is an end of the type's range, which places past a row's end have too."""
    program = sorting(LONGEST_RUN + 100, descending=True, kept=150)
    ends = [np.nan, np.inf, -np.inf, -0.0, np.float32(-np.nan)]
    for end in ends:
        x = np.full((2, LONGEST_RUN + 100), end, np.float32)
        x[1, ::7] = 1.0
        check(program, expand_sorts(program, H200), x)


def test_what_is_left_of_long_rows_is_selected_again() -> None:
    program = sorting(10 * LONGEST_RUN, kept=1000)
    expanded = expand_sorts(program, H200)
    rows = [b for n, b in expanded.buffers.items() if n.startswith("v_run")]
    assert [int(b.shape[1]) for b in rows[:2]] == [10_000, 2_000]
    assert [b.unfusable for b in rows[:2]] == [True, False]
    assert int(expanded.buffers["v"].shape[1]) == 2_000
    check(program, expanded, drawn(10 * LONGEST_RUN))


@pytest.mark.parametrize(("length", "kept"), [(SHORTEST_SELECTED, 3), (200, 100), (1031, 516)])
def test_what_takes_less_is_not_selected(length: int, kept: int) -> None:
    expanded = expand_sorts(sorting(length, kept=kept), H200)
    assert not any("reached" in name for name in expanded.buffers)


@settings(max_examples=15, deadline=None)
@given(st.integers(9, 2500), st.integers(0, 100))
def test_few_of_every_admitted_length_are_selected(length: int, seed: int) -> None:
    check(SELECTING, SELECTED, drawn(length, seed), m=length)


SELECTING = sorting(Var("m", 9, 2500), kept=8)
SELECTED = expand_sorts(SELECTING, H200)
DYNAMIC = sorting(N)
EXPANDED = expand_sorts(DYNAMIC, H200)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 700), st.integers(0, 100))
def test_every_admitted_length_is_sorted(length: int, seed: int) -> None:
    check(DYNAMIC, EXPANDED, drawn(length, seed), n=length)


def test_a_computed_value_is_stored_first() -> None:
    program = sorting(7, square=True)
    expanded = expand_sorts(program, H200)
    verify(expanded)
    first, second = expanded.operations[:2]
    assert isinstance(first, Pointwise) and isinstance(second, Reduction)
    check(program, expanded, drawn(7))


def test_a_program_without_sorts_is_kept() -> None:
    program = expand_sorts(sorting(4), H200)
    assert expand_sorts(program, H200) is program


def test_order_of_equal_elements_is_kept() -> None:
    x = np.zeros((2, 1300), np.float32)
    found = evaluate(expand_sorts(sorting(1300), H200), {"x": x}, {}, {})["p"]
    np.testing.assert_array_equal(found, torch.arange(1300).expand(2, -1).numpy())
