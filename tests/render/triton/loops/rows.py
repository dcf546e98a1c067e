"""A kernel over rows on tiles that tests choose."""

from collections.abc import Sequence
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.render.triton.loops.loops import LoopKernel, loop_kernel
from tests.schedule.programs import F32, Writer, apply, load, schedule_of

ROWS, LENGTH = 6, 1024
IN_REGISTERS = ReductionTile(1, LENGTH, persistent=True, num_warps=1)
IN_LOOPS = ReductionTile(1, 128, persistent=False, num_warps=1)
IN_PIPELINE = replace(IN_LOOPS, cluster_size=2, resident=2, ring=4, kept=1)


def shares(dtype: DType = F32) -> tuple[Schedule, Kernel]:
    """Rows by a weight for each column, over their sums: two passes over a row."""
    w = Writer()
    x, weight = w.input("x", ROWS, LENGTH, dtype=dtype), w.input("w", LENGTH, dtype=dtype)
    sums = w.reduction("s", [ROWS], [LENGTH], lambda i, r: load(x, i, r))
    y = w.pointwise(
        "y",
        [ROWS, LENGTH],
        lambda i, j: apply("mul", apply("div", load(x, i, j), load(sums, i)), load(weight, j)),
        dtype=dtype,
    )
    schedule = schedule_of(w.program(y), 90)
    (kernel,) = schedule.kernels
    return schedule, kernel


def shares_on(
    tile: ReductionTile, dtype: DType = F32, *, awaited: Sequence[str] = ()
) -> LoopKernel:
    """That kernel on a tile."""
    return loop_kernel(*shares(dtype), tile, awaited=awaited)


def text(made: LoopKernel) -> str:
    """The lines of a kernel."""
    return "\n".join(made.context.lines)
