"""Which rows can be taken in turn: what is read along them, and what is left to other kernels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.row_reads import RowReads, row_reads
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule import schedule
from tests.schedule.programs import BF16, F32, I64, Writer, apply, load, lowered

ROWS, LENGTH = 8, 20_480
Element = Callable[[Any, Any], Any]


def less_top(
    dtype: DType = F32,
    *,
    out: DType | None = None,
    kind: str = "max",
    weight: DType | None = None,
    columns: int = LENGTH,
    element: Callable[[Any], Element] = lambda x: lambda i, r: load(x, i, r),
) -> Program:
    """Each row less its maximum, times a weight."""
    w = Writer()
    x = w.input("x", ROWS, columns, dtype=dtype)
    scale = w.input("w", LENGTH, dtype=weight) if weight else None
    made = I64 if kind == "argmax" else None
    top = w.reduction("t", [ROWS], [LENGTH], element(x), kind=kind, dtype=made or dtype)

    def value(i: Any, j: Any) -> Any:
        result = apply("sub", element(x)(i, j), load(top, i) if made is None else element(x)(i, j))
        return apply("mul", result, load(scale, j)) if scale is not None else result

    return w.program(w.pointwise("y", [ROWS, LENGTH], value, dtype=out or dtype))


def found(program: Program) -> list[RowReads | None]:
    planned = schedule(lowered(program)).schedule
    kernels = [kernel for kernel in planned.kernels if len(kernel.axes) == 2]
    return [row_reads(kernel, planned.strides, planned.program.buffers) for kernel in kernels]


def test_streams_and_what_rows_have_in_common() -> None:
    (reads,) = found(less_top(weight=F32))
    assert reads is not None
    assert [name for name, _ in reads.streams] == ["x"] and reads.vector == 4
    assert [name for name, _ in reads.common] == ["w"]
    assert reads.slot_bytes(2048) == 8192 and reads.common_bytes(0, 2048, 10) == 81_920
    assert reads.in_shared(1) == () and reads.common_bytes(1, 2048, 10) == 0


def test_common_tensors_of_another_width_are_read_as_ever() -> None:
    (reads,) = found(less_top(BF16, weight=F32))
    assert reads is not None and reads.common == () and reads.width == 2


@pytest.mark.parametrize(
    "program",
    [
        less_top(BF16, out=F32),  # wider results
        less_top(DType.INT8),  # elements of a byte
        less_top(columns=LENGTH + 1, element=lambda x: lambda i, r: load(x, i, r + Int.of(1))),
        less_top(columns=2 * LENGTH, element=lambda x: lambda i, r: load(x, i, r * Int.of(2))),
    ],
    ids=["wider", "bytes", "not in vectors", "every other"],
)
def test_what_is_left_to_other_kernels(program: Program) -> None:
    assert all(reads is None for reads in found(program))


def test_positions_are_left_to_other_kernels() -> None:
    planned = schedule(lowered(less_top())).schedule
    (kernel,) = (kernel for kernel in planned.kernels if len(kernel.axes) == 2)
    members = tuple(
        replace(member, operation=replace(member.operation, kind="argmax"))
        if hasattr(member.operation, "kind")
        else member
        for member in kernel.members
    )
    changed = replace(kernel, members=members)
    assert row_reads(changed, planned.strides, planned.program.buffers) is None
