"""Last blocks: the last programs of a kernel to arrive run the kernels behind it.

program = tl.program_id(0)
sum(x_ptr, part_ptr, program)
tl.debug_barrier()
if tl.atomic_add(arrived_ptr + program % 4, 1, sem="acq_rel") == 527:
    total(part_ptr, out_ptr, program % 4)
    tl.store(arrived_ptr + program % 4, 0)

A program's stores are released by the atomic operation of one of its threads, behind a barrier. The
last program to arrive acquires them, and reads past L1, which may hold stale lines. No other
program uses the counter then, so it is reset.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule, block_count
from aotpack.ir.kernels.last_block import arrival_count
from aotpack.ir.kernels.tiles import ReductionTile, Tile
from aotpack.ir.kernels.traffic import NO_WORK, work_of
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.arguments import POINTER_MULTIPLE
from aotpack.render.emit.language import Divisibility, RenderedKernel
from aotpack.render.emit.regions import INDENT
from aotpack.render.environment import render_template
from aotpack.render.triton.launches.horizontal import (
    PROGRAM,
    horizontal_context,
    launch_parameters,
    member_calls,
    member_function,
)
from aotpack.render.triton.loops.loops import loop_kernel
from aotpack.stages import KernelArg

COUNTER = KernelArg(
    "arrived_ptr", DType.INT32, is_pointer=True, multiple=POINTER_MULTIPLE, is_written=True
)


def last_block_launch(
    schedule: Schedule,
    kernels: tuple[Kernel, ...],
    tiles: tuple[Tile, ...],
    divisibility: Divisibility,
) -> RenderedKernel:
    """One kernel for a kernel and those that complete it."""
    (first, second), (walk, close) = kernels[:2], tiles[:2]
    assert isinstance(walk, ReductionTile) and isinstance(close, ReductionTile)
    builders, members = [], []
    for kernel, tile in zip(kernels, tiles, strict=True):
        assert isinstance(tile, ReductionTile)
        awaited = () if kernel is first else first.stored
        made = loop_kernel(schedule, kernel, tile, PROGRAM, awaited)
        members.append(member_function(made.context))
        builders.append(made.builder)
    for number in (arrival_count(first, second), second.axes[0].extent):
        builders[0].arguments.use_sizes(number)
    counter = {second.counters[0].name: COUNTER}
    passed = launch_parameters(builders, dict(divisibility), counter)
    calls = member_calls(builders, members, passed)
    lines = _lines(calls, _groups(second, close.x), arrival_count(first, second))
    context = horizontal_context(builders, members, passed, lines)
    return RenderedKernel(
        f"{first.name}_with_last_block",
        lambda name: render_template("kernel_horizontal.py.jinja", replace(context, name=name)),
        tuple(passed.values()),
        tuple(passed),
        tiles[0],
        sum((work_of(kernel, schedule.program) for kernel in kernels), NO_WORK),
        block_count(first, walk),
    )


def _lines(calls: list[str], groups: str, parts: Int) -> list[str]:
    return [
        f"{calls[0]}, {PROGRAM})",
        f"group = {PROGRAM} % {groups}",
        "tl.debug_barrier()",
        f'if tl.atomic_add({COUNTER.name} + group, 1, sem="acq_rel") == {parts - 1}:',
        *(f"{INDENT}{call}, group)" for call in calls[1:]),
        f"{INDENT}tl.store({COUNTER.name} + group, 0)",
    ]


def _groups(kernel: Kernel, block: int) -> str:
    """The number of programs that a kernel would have, as text."""
    rows = kernel.axes[0].extent
    if rows.constant is not None:
        return str(-(-rows.constant // block))
    return f"tl.cdiv({rows}, {block})" if block > 1 else f"({rows})"
