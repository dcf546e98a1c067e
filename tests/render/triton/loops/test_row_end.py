"""Rows that end early: their loops do, and others compare positions."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.symbolic.integers import Int, Number
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value
from aotpack.render.emit.kernel_builder import needs_64_bits
from aotpack.render.triton.loops.loops import loop_kernel
from aotpack.render.triton.loops.row_end import ended_early
from tests.render.triton.loops.rows import IN_LOOPS, text
from tests.schedule.programs import F32, Writer, load, schedule_of

ROWS, LENGTH, WHOLE = 6, 1024, 6000
NOTHING = {"sum": 0.0, "max": float("-inf"), "argmax": float("-inf"), "welford": 0.0}


def before(position: Int, end: Number, value: Value, otherwise: float) -> Guarded:
    inside = Apply(
        "lt",
        (IndexValue(position, DType.INT64), IndexValue(Int.of(end), DType.INT64))
        if isinstance(end, Int)
        else (IndexValue(position, DType.INT64), Const(end, DType.INT64)),
        DType.BOOL,
    )
    return Guarded(inside, value, Const(otherwise, F32), F32)


def parts(
    kind: str = "sum", *, otherwise: float | None = None, step: int = 1, end: Number = WHOLE
) -> tuple[Schedule, Kernel]:
    """Parts of one row, the last of which is shorter."""
    w = Writer()
    x = w.input("x", ROWS * LENGTH)
    nothing = NOTHING[kind] if otherwise is None else otherwise
    names = ("m", "s") if kind == "welford" else ("y",)

    def value(part: Int, r: Int) -> Value:
        position = part * LENGTH + r * step
        return before(position, end, load(x, part * LENGTH + r), nothing)

    dtype = DType.INT64 if kind == "argmax" else F32
    made = w.reductions(names, [ROWS], [LENGTH], value, kind=kind, dtype=dtype)
    schedule = schedule_of(w.program(*made), 90)
    (kernel,) = schedule.kernels
    return schedule, kernel


@pytest.mark.parametrize("kind", ["sum", "max", "argmax"])
def test_the_loop_ends_where_the_row_does(kind: str) -> None:
    schedule, kernel = parts(kind)
    shorter = ended_early(kernel)
    end, x = shorter.axes[1].extent, shorter.axes[0]
    ends = [int(end.substitute({x: Int.of(part)})) for part in range(ROWS)]
    assert ends == [LENGTH] * 5 + [WHOLE - 5 * LENGTH]
    lines = text(loop_kernel(schedule, kernel, IN_LOOPS))
    assert "tl.load(x_ptr + r + 1024*x)" in lines  # whole blocks
    assert "r < 6000" not in lines and "< 6000" not in lines


@pytest.mark.parametrize(
    "given",
    [
        parts(otherwise=1.0),  # not the identity
        parts("welford"),  # counts its elements
        parts(step=2),  # half of the row is compared with another end
    ],
)
def test_others_compare_positions(given: tuple[Schedule, Kernel]) -> None:
    schedule, kernel = given
    assert ended_early(kernel) is kernel
    assert "< 6000" in text(loop_kernel(schedule, kernel, IN_LOOPS))


def test_each_lane_of_several_rows_has_its_own_end() -> None:
    schedule, kernel = parts()
    assert "< 6000" in text(loop_kernel(schedule, kernel, replace(IN_LOOPS, x=2, r=64)))


def test_rows_behind_the_end_are_empty() -> None:
    schedule, kernel = parts("argmax", end=2500)
    shorter = ended_early(kernel)
    end, x = shorter.axes[1].extent, shorter.axes[0]
    ends = [int(end.substitute({x: Int.of(part)})) for part in range(ROWS)]
    assert ends == [LENGTH, LENGTH, 2500 - 2 * LENGTH, 0, 0, 0]
    lines = text(loop_kernel(schedule, kernel, IN_LOOPS))
    assert re.search(r"tl.maximum\((i2, 1|1, i2)\)", lines)  # its first lane has the identity


def two(*ends: int) -> Kernel:
    """A sum and a maximum of parts that end there."""
    w = Writer()
    x = w.input("x", ROWS * LENGTH)

    def value(kind: str, end: int) -> Callable[[Int, Int], Value]:
        return lambda part, r: before(
            part * LENGTH + r, end, load(x, part * LENGTH + r), NOTHING[kind]
        )

    made = [
        w.reduction(kind, [ROWS], [LENGTH], value(kind, end), kind=kind)
        for kind, end in zip(("sum", "max"), ends, strict=True)
    ]
    (kernel,) = schedule_of(w.program(*made), 90).kernels
    assert len(kernel.reductions) == 2
    return kernel


def test_reductions_of_a_kernel_have_one_end_or_compare() -> None:
    kernel = two(WHOLE, WHOLE)
    assert ended_early(kernel) is not kernel
    kernel = two(WHOLE, WHOLE - 1)
    assert ended_early(kernel) is kernel


def test_the_end_of_rows_beyond_31_bits_takes_64() -> None:
    """The position of a row is compared, though no element lies there."""

    def rows(count: int) -> bool:
        w = Writer()
        x = w.input("x", WHOLE)

        def value(row: Int, r: Int) -> Value:
            position = row * 2**20 + r
            return before(position, WHOLE, load(x, r), 0.0)

        schedule = schedule_of(w.program(w.reduction("y", [count], [WHOLE], value)), 90)
        (kernel,) = schedule.kernels
        shorter = ended_early(kernel)
        assert shorter is not kernel
        return needs_64_bits(schedule, shorter)

    assert rows(4096) and not rows(16)
